#include "synth/outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/math.h"
#include "base/units.h"
#include "gguf/file_type.h"
#include "gguf/writer.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "model/weights.h"
#include "os/memory.h"
#include "synth/fill.h"
#include "synth/tensors.h"

namespace thermocline::synth {
namespace {

using gguf::ValueType;

constexpr float kNormEpsilon = 1e-5f;

// Keys of one architecture: "llama.block_count".
class Keys {
 public:
  Keys(gguf::Writer& writer, std::string_view architecture)
      : writer_(writer), prefix_(std::string(architecture) + ".") {}

  Status Int(const std::string& key, uint64_t value) {
    return writer_.AddInt(prefix_ + key, ValueType::kU32,
                          static_cast<int64_t>(value));
  }
  Status Float(const std::string& key, double value) {
    return writer_.AddFloat(prefix_ + key, static_cast<float>(value));
  }

 private:
  gguf::Writer& writer_;
  std::string prefix_;
};

Status AddExtents(const SynthPlan& plan, gguf::Writer& writer) {
  const SynthShape& shape = plan.shape;
  const model::Architecture& arch = shape.arch();
  Keys keys(writer, shape.architecture);
  TC_RETURN_IF_ERROR(keys.Int("context_length", shape.context));
  TC_RETURN_IF_ERROR(keys.Int("embedding_length", shape.width));
  TC_RETURN_IF_ERROR(keys.Int("block_count", plan.num_layers));
  TC_RETURN_IF_ERROR(keys.Int("feed_forward_length", shape.ffn_width));
  TC_RETURN_IF_ERROR(keys.Int("attention.head_count", shape.num_heads));
  TC_RETURN_IF_ERROR(keys.Int("attention.head_count_kv", shape.num_kv_heads));
  if (shape.head_size > 0) {
    TC_RETURN_IF_ERROR(keys.Int("attention.key_length", shape.head_width()));
    TC_RETURN_IF_ERROR(keys.Int("attention.value_length", shape.head_width()));
  }
  TC_RETURN_IF_ERROR(keys.Int("vocab_size", shape.vocab_size));
  if (arch.rope != RopeKind::kNone) {
    TC_RETURN_IF_ERROR(keys.Int("rope.dimension_count", shape.rope_width()));
    TC_RETURN_IF_ERROR(keys.Float("rope.freq_base", shape.rope_base));
  }
  if (shape.num_experts > 0) {
    TC_RETURN_IF_ERROR(keys.Int("expert_count", shape.num_experts));
    TC_RETURN_IF_ERROR(keys.Int("expert_used_count", shape.experts_used));
    if (arch.mixture == model::Mixture::kAlways) {
      TC_RETURN_IF_ERROR(
          keys.Int("expert_feed_forward_length", shape.ffn_width));
    }
  }
  return keys.Float(arch.norm == NormKind::kRms
                        ? "attention.layer_norm_rms_epsilon"
                        : "attention.layer_norm_epsilon",
                    kNormEpsilon);
}

Status AddMarks(const SynthPlan& plan, gguf::Writer& writer) {
  TC_RETURN_IF_ERROR(writer.AddString("general.architecture",
                                      std::string(plan.shape.architecture)));
  TC_RETURN_IF_ERROR(writer.AddString(
      "general.name",
      fmt::format("synthetic like {}, {}", plan.shape.name, plan.Describe())));
  TC_RETURN_IF_ERROR(writer.AddInt(
      "general.file_type", ValueType::kU32,
      static_cast<int64_t>(gguf::FileTypeOf(plan.options.dtype))));
  TC_RETURN_IF_ERROR(writer.AddInt("general.quantization_version",
                                   ValueType::kU32,
                                   gguf::kQuantizationVersion));
  TC_RETURN_IF_ERROR(writer.AddString(
      model::prepared::kSynthetic,
      fmt::format("like {}, {}, {}, {}", plan.shape.name,
                  Plural(plan.num_layers, "layer"), NameOf(plan.options.dtype),
                  plan.Describe())));
  const bool is_squared = plan.shape.arch().activation == Activation::kRelu2;
  return writer.AddString(model::prepared::kActivation,
                          is_squared ? "relu2" : "relu");
}

Status AddPrepared(const SynthPlan& plan, gguf::Writer& writer) {
  namespace prepared = model::prepared;
  TC_RETURN_IF_ERROR(writer.AddInt(prepared::kVersionKey, ValueType::kU32,
                                   prepared::kVersion));
  const std::vector records(plan.num_layers, SynthRecordLayout(plan));
  TC_RETURN_IF_ERROR(
      model::WriteRecordKeys(records, plan.shape.arch().gated, writer));
  if (!plan.options.with_predictor) return {};
  return writer.AddInt(prepared::kLookahead, ValueType::kU32, 0);
}

Status AddProfile(const model::ProfileFile& profile, gguf::Writer& writer) {
  for (const gguf::KeyValue& kv : model::ProfileKeys(profile)) {
    TC_RETURN_IF_ERROR(writer.AddKeyValue(kv));
  }
  return {};
}

// All but the profile's.
Status AddKeys(const SynthPlan& plan, SynthLayout layout,
               gguf::Writer& writer) {
  TC_RETURN_IF_ERROR(AddMarks(plan, writer));
  TC_RETURN_IF_ERROR(AddExtents(plan, writer));
  if (layout != SynthLayout::kPrepared) return {};
  return AddPrepared(plan, writer);
}

// Of the prepared file; without a profile: without its counts.
std::vector<SynthTensor> TensorsOf(const SynthWeights& weights,
                                   bool with_profile) {
  std::vector<SynthTensor> tensors =
      SynthTensors(weights, SynthLayout::kPrepared);
  if (!with_profile) {
    std::erase_if(tensors, [](const SynthTensor& tensor) {
      return tensor.dtype == DType::kI32;
    });
  }
  return tensors;
}

// The beginning of a file of these tensors, padded as it has to be.
Result<std::string> HeaderOf(const SynthWeights& weights,
                             std::span<const SynthTensor> tensors,
                             const model::ProfileFile* profile) {
  std::string header;
  const auto writer =
      gguf::Writer::OfHeader(header, gguf::Writer::kMaxAlignment);
  TC_RETURN_IF_ERROR(AddKeys(weights.plan(), SynthLayout::kPrepared, *writer));
  if (profile != nullptr) TC_RETURN_IF_ERROR(AddProfile(*profile, *writer));
  for (const SynthTensor& tensor : tensors) {
    TC_RETURN_IF_ERROR(
        writer->DeclareTensor(tensor.name, tensor.dtype, tensor.shape));
  }
  TC_RETURN_IF_ERROR(writer->Start());
  return header;
}

Result<std::unique_ptr<gguf::File>> MakeOutline(
    const SynthWeights& weights, const model::ProfileFile* profile) {
  const std::vector<SynthTensor> tensors =
      TensorsOf(weights, profile != nullptr);
  TC_ASSIGN_OR_RETURN(const std::string header,
                      HeaderOf(weights, tensors, profile));
  uint64_t num_bytes = header.size();
  for (const SynthTensor& tensor : tensors) {
    num_bytes += RoundUp(tensor.num_rows() * tensor.row_bytes(),
                         gguf::Writer::kMaxAlignment);
  }
  TC_ASSIGN_OR_RETURN(auto buffer, os::AlignedBuffer::Reserve(num_bytes));
  std::byte* const bytes = buffer.data();
  std::memcpy(bytes, header.data(), header.size());
  TC_ASSIGN_OR_RETURN(
      auto file,
      gguf::File::Parse(std::move(buffer),
                        fmt::format("like {}", weights.plan().shape.name)));
  // Norms and biases, which tell models apart, and the profile's counts.
  for (const SynthTensor& tensor : tensors) {
    if (tensor.num_rows() != 1) continue;
    tensor.fill(0, 1, bytes + file->FindTensor(tensor.name)->offset);
  }
  return file;
}

neuron::LayerProfile ExpectedLayer(const SynthWeights& weights,
                                   uint64_t layer_idx) {
  const SynthPlan& plan = weights.plan();
  neuron::LayerProfile layer = {.counts = ExpectedCounts(weights, layer_idx),
                                .num_tokens = kExpectedTokens};
  for (const uint32_t count : layer.counts) layer.num_fired += count;
  const double density = layer.density();
  layer.sum_squared_densities =
      density * density * static_cast<double>(kExpectedTokens);
  // Of a mixture it is that of experts that both tokens use.
  if (plan.shape.num_experts > 0) return layer;
  layer.num_pairs = kExpectedTokens - 1;
  layer.sum_locality =
      plan.options.locality * static_cast<double>(layer.num_pairs);
  return layer;
}

}  // namespace

std::vector<uint32_t> ExpectedCounts(const SynthWeights& weights,
                                     uint64_t layer_idx) {
  std::vector<uint32_t> counts(weights.plan().shape.num_neurons());
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] = static_cast<uint32_t>(
        std::lround(weights.FiringShare(layer_idx, i) *
                    static_cast<double>(kExpectedTokens)));
  }
  return counts;
}

Result<model::ProfileFile> ExpectedProfile(const SynthWeights& weights) {
  TC_ASSIGN_OR_RETURN(const auto outline, MakeOutline(weights, nullptr));
  TC_ASSIGN_OR_RETURN(const model::Config config, model::ReadConfig(*outline));
  TC_ASSIGN_OR_RETURN(const model::Weights bound,
                      model::BindWeights(*outline, config));
  model::ProfileFile profile = {.model = model::FingerprintOf(config, bound),
                                .corpus = "no text: as asked of synth",
                                .context = 1};
  for (uint64_t i = 0; i < weights.plan().num_layers; ++i) {
    profile.profile.layers.push_back(ExpectedLayer(weights, i));
  }
  return profile;
}

Status AddSynthKeys(const SynthWeights& weights, SynthLayout layout,
                    gguf::Writer& writer) {
  TC_RETURN_IF_ERROR(AddKeys(weights.plan(), layout, writer));
  if (layout != SynthLayout::kPrepared) return {};
  TC_ASSIGN_OR_RETURN(const auto profile, ExpectedProfile(weights));
  return AddProfile(profile, writer);
}

Result<std::unique_ptr<gguf::File>> OutlineOf(const SynthWeights& weights) {
  TC_ASSIGN_OR_RETURN(const model::ProfileFile profile,
                      ExpectedProfile(weights));
  return MakeOutline(weights, &profile);
}

}  // namespace thermocline::synth
