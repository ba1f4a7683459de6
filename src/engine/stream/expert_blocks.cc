#include "engine/stream/expert_blocks.h"

#include <fmt/format.h>

#include <string_view>
#include <variant>

#include "base/check.h"
#include "model/prepared_names.h"
#include "model/tensor_roles.h"
#include "neuron/record.h"

namespace thermocline::engine {
namespace {

// "ffn_up.3.weight" of "ffn_up.weight".
std::string Numbered(std::string_view name, size_t expert_idx) {
  const size_t end = name.rfind('.');
  return fmt::format("{}.{}{}", name.substr(0, end), expert_idx,
                     name.substr(end));
}

// Slice i of n equal ones.
gguf::FileSpan SliceOf(const gguf::TensorInfo& tensor, size_t i, size_t n) {
  const uint64_t num_bytes = tensor.num_bytes / n;
  return {tensor.shard_idx, tensor.offset + i * num_bytes, num_bytes};
}

}  // namespace

std::vector<ExpertPart> ExpertPartsOf(const gguf::File& file,
                                      const model::Config& config,
                                      size_t layer_idx, size_t expert_idx) {
  const size_t num_experts = config.layers[layer_idx].ffn.num_experts;
  std::vector<ExpertPart> parts;
  const auto add = [&](const std::string& name, bool is_stack,
                       TensorView model::FfnMatrices::* matrix) {
    const gguf::TensorInfo* tensor = file.FindTensor(name);
    if (tensor == nullptr) return;
    parts.push_back(
        {name,
         is_stack ? SliceOf(*tensor, expert_idx, num_experts) : tensor->span(),
         matrix});
  };
  if (!config.records.empty()) {
    add(model::prepared::OfLayer(layer_idx, model::prepared::kRecords), true,
        nullptr);
  }
  for (const model::TensorRole& role : model::LayerRoles()) {
    const auto* matrix =
        std::get_if<TensorView model::FfnMatrices::*>(&role.slot);
    if (matrix == nullptr) continue;
    const bool is_stack = role.form == model::TensorForm::kStack;
    add(model::prepared::OfLayer(layer_idx,
                                 is_stack ? std::string(role.name)
                                          : Numbered(role.name, expert_idx)),
        is_stack, *matrix);
  }
  return parts;
}

ExpertBlock ExpertBlockOf(const std::vector<ExpertPart>& parts,
                          std::span<const uint64_t> file_bytes) {
  std::vector<gguf::FileSpan> spans;
  ExpertBlock block;
  for (const ExpertPart& part : parts) {
    spans.push_back(part.span);
    block.matrices.push_back(part.matrix);
  }
  block.layout = LayBlock(spans, file_bytes);
  return block;
}

std::vector<ExpertLayer> LayExperts(const gguf::File& file,
                                    const model::Config& config,
                                    std::span<const uint64_t> file_bytes) {
  std::vector<ExpertLayer> layers(config.layers.size());
  uint32_t num_units = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    ExpertLayer& layer = layers[i];
    layer.first_unit = num_units;
    if (!config.records.empty()) layer.records = &config.records[i];
    for (size_t e = 0; e < config.layers[i].ffn.num_experts; ++e) {
      layer.blocks.push_back(
          ExpertBlockOf(ExpertPartsOf(file, config, i, e), file_bytes));
      TC_CHECK(!layer.blocks.back().layout.reads.empty());
      ++num_units;
    }
  }
  return layers;
}

void PlaceExpert(const ExpertBlock& block, const neuron::RecordLayout* layout,
                 const std::byte* slot, model::FfnMatrices& matrices) {
  for (size_t i = 0; i < block.matrices.size(); ++i) {
    const std::byte* data = slot + block.layout.span_offsets[i];
    if (block.matrices[i] != nullptr) {
      (matrices.*block.matrices[i]).data = data;
      continue;
    }
    TC_CHECK(layout != nullptr);
    const neuron::RecordViews views =
        neuron::ViewRecords(*layout, data, matrices.up.shape.num_rows());
    if (views.gate) matrices.gate = views.gate;
    matrices.up = views.up;
    matrices.down_t = views.down_t;
  }
}

}  // namespace thermocline::engine
