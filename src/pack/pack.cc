#include "pack/pack.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/quote.h"
#include "base/remedy.h"
#include "gguf/split.h"
#include "gguf/writer.h"
#include "model/bundle.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "neuron/record_builder.h"
#include "os/thread_pool.h"
#include "pack/names.h"
#include "pack/renumber.h"
#include "pack/tensors.h"

namespace thermocline::pack {
namespace {

namespace prepared = model::prepared;
using neuron::RecordBuilder;

constexpr uint64_t kCopyBytes = uint64_t{4} << 20;
constexpr uint64_t kRecordBytes = uint64_t{32} << 20;  // built at a time

// One tensor of the output: of the source, a layer's gate rows or records, or a
// part.
struct LayerGates {
  size_t layer_idx;
};
struct LayerRecords {
  size_t layer_idx;
};
using Item = std::variant<const gguf::TensorInfo*, LayerGates, LayerRecords,
                          const PartTensor*>;

class Packer {
 public:
  Packer(const model::Model& source, const PreparedParts& parts,
         const PackOptions& options, std::vector<PackedLayer> layers,
         os::ThreadPool* pool)
      : source_(source),
        parts_(parts),
        options_(options),
        layers_(std::move(layers)),
        numbers_(ChooseNumbers(source, parts, options)),
        part_tensors_(TensorsOf(parts, source.config())),
        builder_(pool) {
    for (PartTensor& tensor : TensorsOfNumbers(numbers_.source_neurons())) {
      part_tensors_.push_back(std::move(tensor));
    }
  }

  Status Write(const std::string& output);
  PackSummary Summarise(const std::string& output) const;

 private:
  void ListItems();
  Status AddKeys(gguf::Writer& writer) const;
  Status AddRecordKeys(gguf::Writer& writer) const;
  Status Declare(gguf::Writer& writer);
  Status WriteCopy(std::string_view name, std::span<const std::byte> bytes,
                   gguf::Writer& writer);
  Status WriteItem(const Item& item, gguf::Writer& writer);
  Status WriteGates(size_t layer_idx, gguf::Writer& writer);
  Status WriteRecords(size_t layer_idx, gguf::Writer& writer);
  Status WriteFfn(size_t layer_idx, const neuron::RecordSource& source,
                  neuron::DownCost& cost, gguf::Writer& writer);
  Status Step(std::string_view what, uint64_t num_bytes);
  neuron::RecordSource SourceOf(size_t layer_idx, size_t expert_idx) const;
  std::string GatesName(size_t layer_idx) const;
  Shape GatesShape(size_t layer_idx) const;
  size_t num_ffns(size_t layer_idx) const {
    return model::ExpertsOf(source_.weights().layers[layer_idx].ffn).size();
  }
  // Gate rows of a layer without a place in its records.
  bool HasGateMatrix(size_t layer_idx) const {
    return spec(layer_idx).gated && !layers_[layer_idx].layout->gate;
  }
  const model::FfnSpec& spec(size_t layer_idx) const {
    return source_.config().layers[layer_idx].ffn;
  }
  uint64_t neurons_per_ffn(size_t layer_idx) const {
    return spec(layer_idx).width;
  }

  const model::Model& source_;
  const PreparedParts& parts_;
  const PackOptions& options_;
  std::vector<PackedLayer> layers_;
  Renumbering numbers_;
  std::vector<PartTensor> part_tensors_;
  std::vector<Item> items_;
  RecordBuilder builder_;
  std::vector<std::byte> piece_;  // of records or gate rows
  neuron::DownCost cost_;         // of all layers
  uint64_t num_total_ = 0;        // bytes of tensors
  uint64_t num_done_ = 0;
};

// Gates and records stand where the first matrix of the layer's FFN stood.
void Packer::ListItems() {
  std::set<size_t> bundled;
  for (const gguf::TensorInfo& tensor : source_.file().tensors()) {
    const auto name = ParseLayerName(tensor.name);
    const bool is_ffn =
        name && (IsFfnMatrix(name->rest) || name->rest == prepared::kRecords);
    const bool is_bundled = is_ffn && name->layer_idx < layers_.size() &&
                            layers_[name->layer_idx].layout.has_value();
    if (is_bundled) {
      if (bundled.insert(name->layer_idx).second) {
        const size_t layer_idx = name->layer_idx;
        if (HasGateMatrix(layer_idx)) {
          items_.emplace_back(LayerGates{layer_idx});
        }
        items_.emplace_back(LayerRecords{layer_idx});
      }
      continue;
    }
    if (name && IsOwnTensor(name->rest)) continue;
    if (name && !parts_.predictors.empty() && IsForeignPredictor(name->rest)) {
      continue;
    }
    items_.emplace_back(&tensor);
  }
  for (const PartTensor& tensor : part_tensors_) items_.emplace_back(&tensor);
}

Status Packer::AddRecordKeys(gguf::Writer& writer) const {
  std::vector<neuron::RecordLayout> records;
  for (const PackedLayer& layer : layers_) {
    if (!layer.layout) return {};
    records.push_back(*layer.layout);
  }
  return model::WriteRecordKeys(records, spec(0).gated, writer);
}

Status Packer::AddKeys(gguf::Writer& writer) const {
  for (const gguf::KeyValue& kv : source_.file().metadata()) {
    const std::string_view key = kv.key;
    if (key.starts_with("split.") || key == "general.alignment") continue;
    if (IsPartKey(parts_, key)) continue;
    if (!parts_.predictors.empty() && IsForeignPredictorKey(key)) continue;
    TC_RETURN_IF_ERROR(writer.AddKeyValue(kv));
  }
  TC_RETURN_IF_ERROR(AddRecordKeys(writer));
  return AddPartKeys(parts_, writer, numbers_.Hash());
}

Status Packer::Declare(gguf::Writer& writer) {
  const auto declare = [&](const std::string& name, DType dtype,
                           const Shape& shape) -> Status {
    num_total_ += BytesOf(dtype, shape.num_elems());
    return writer.DeclareTensor(name, dtype, shape);
  };
  for (const Item& item : items_) {
    if (const auto* tensor = std::get_if<const gguf::TensorInfo*>(&item)) {
      TC_RETURN_IF_ERROR(
          declare((*tensor)->name, (*tensor)->dtype, (*tensor)->shape));
    } else if (const auto* gates = std::get_if<LayerGates>(&item)) {
      TC_RETURN_IF_ERROR(declare(GatesName(gates->layer_idx),
                                 SourceOf(gates->layer_idx, 0).gate.dtype,
                                 GatesShape(gates->layer_idx)));
    } else if (const auto* records = std::get_if<LayerRecords>(&item)) {
      TC_RETURN_IF_ERROR(declare(
          prepared::OfLayer(records->layer_idx, prepared::kRecords), DType::kI8,
          {.ne = {layers_[records->layer_idx].layout->stride,
                  NumNeurons(spec(records->layer_idx)), 1, 1},
           .rank = 2}));
    } else {
      const PartTensor& part = *std::get<const PartTensor*>(item);
      TC_RETURN_IF_ERROR(declare(part.name, part.dtype, part.shape));
    }
  }
  return {};
}

// To be called before `num_bytes` are written.
Status Packer::Step(std::string_view what, uint64_t num_bytes) {
  if (options_.cancel != nullptr && options_.cancel->load()) {
    return Fail(ErrorCode::kCancelled, "packing was interrupted");
  }
  ReportProgress(options_.progress, Escape(what), num_done_, num_total_);
  num_done_ += num_bytes;
  return {};
}

Status Packer::WriteCopy(std::string_view name,
                         std::span<const std::byte> bytes,
                         gguf::Writer& writer) {
  const std::vector<std::byte> moved = numbers_.Moved(name, bytes);
  if (!moved.empty()) bytes = moved;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min<size_t>(bytes.size(), kCopyBytes));
    TC_RETURN_IF_ERROR(Step(name, piece.size()));
    TC_RETURN_IF_ERROR(writer.WriteTensorData(piece));
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

std::string Packer::GatesName(size_t layer_idx) const {
  return prepared::OfLayer(layer_idx, spec(layer_idx).num_experts > 0
                                          ? prepared::kExpertGates
                                          : prepared::kGates);
}

Shape Packer::GatesShape(size_t layer_idx) const {
  const size_t width = source_.config().width;
  if (spec(layer_idx).num_experts == 0) {
    return {.ne = {width, neurons_per_ffn(layer_idx), 1, 1}, .rank = 2};
  }
  return {.ne = {width, neurons_per_ffn(layer_idx), num_ffns(layer_idx), 1},
          .rank = 3};
}

neuron::RecordSource Packer::SourceOf(size_t layer_idx,
                                      size_t expert_idx) const {
  const auto ffn_of = [&](const model::Model& model) {
    return model::ExpertsOf(model.weights().layers[layer_idx].ffn)[expert_idx];
  };
  neuron::RecordSource source = model::SourceOf(ffn_of(source_));
  if (options_.down_source != nullptr) {
    const model::FfnMatrices better = ffn_of(*options_.down_source);
    source.down = better.down;
    source.down_t = better.down_t;
  }
  return source;
}

Status Packer::WriteFfn(size_t layer_idx, const neuron::RecordSource& source,
                        neuron::DownCost& cost, gguf::Writer& writer) {
  const neuron::RecordLayout& layout = *layers_[layer_idx].layout;
  const std::string name = prepared::OfLayer(layer_idx, prepared::kRecords);
  const uint64_t units =
      kRecordBytes / layout.stride / RecordBuilder::kUnitNeurons;
  const uint64_t piece =
      std::max(uint64_t{1}, units) * RecordBuilder::kUnitNeurons;
  const std::span<const uint32_t> order = numbers_.neurons(layer_idx);
  const uint64_t num_neurons = neurons_per_ffn(layer_idx);
  // Those in another order are all built before the first is written.
  piece_.resize((order.empty() ? std::min(piece, num_neurons) : num_neurons) *
                layout.stride);
  for (uint64_t first = 0; first < num_neurons; first += piece) {
    const uint64_t count = std::min(piece, num_neurons - first);
    const auto built = std::span(piece_).subspan(
        order.empty() ? 0 : first * layout.stride, count * layout.stride);
    TC_RETURN_IF_ERROR(Step(name, built.size()));
    cost.Add(builder_.Build(layout, source, first, count, built.data()));
    if (order.empty()) TC_RETURN_IF_ERROR(writer.WriteTensorData(built));
  }
  for (const uint32_t neuron : order) {
    TC_RETURN_IF_ERROR(writer.WriteTensorData(
        std::span(piece_).subspan(neuron * layout.stride, layout.stride)));
  }
  return {};
}

// Out of the source's matrix, or of its records.
Status Packer::WriteGates(size_t layer_idx, gguf::Writer& writer) {
  const std::string name = GatesName(layer_idx);
  const std::span<const uint32_t> order = numbers_.neurons(layer_idx);
  for (size_t i = 0; i < num_ffns(layer_idx); ++i) {
    const TensorView gate = SourceOf(layer_idx, i).gate;
    const size_t row_bytes = gate.row_bytes();
    const uint64_t piece = std::max<uint64_t>(1, kCopyBytes / row_bytes);
    for (uint64_t first = 0; first < neurons_per_ffn(layer_idx);
         first += piece) {
      const uint64_t count =
          std::min(piece, neurons_per_ffn(layer_idx) - first);
      piece_.resize(count * row_bytes);
      for (uint64_t k = 0; k < count; ++k) {
        const uint64_t neuron =
            order.empty() ? first + k : uint64_t{order[first + k]};
        std::memcpy(&piece_[k * row_bytes], gate.row(neuron), row_bytes);
      }
      TC_RETURN_IF_ERROR(Step(name, piece_.size()));
      TC_RETURN_IF_ERROR(writer.WriteTensorData(piece_));
    }
  }
  return {};
}

Status Packer::WriteRecords(size_t layer_idx, gguf::Writer& writer) {
  neuron::DownCost cost;
  for (size_t i = 0; i < num_ffns(layer_idx); ++i) {
    TC_RETURN_IF_ERROR(
        WriteFfn(layer_idx, SourceOf(layer_idx, i), cost, writer));
  }
  layers_[layer_idx].down_error = cost.RelativeError();
  cost_.Add(cost);
  // A type that cannot hold the values loses most of them, or gives infinity.
  constexpr double kMostError = 0.5;
  if (layers_[layer_idx].down_error <= kMostError) return {};
  return Fail(ErrorCode::kCorrupt, Advice{Remedy::kCheckTensors},
              "{}: layer {}: the down columns as {} differ from the weights by "
              "{:.2g} of them: weights that are not finite (a damaged file?) "
              "or too large for the type",
              source_.file().path(), layer_idx,
              NameOf(layers_[layer_idx].layout->down),
              layers_[layer_idx].down_error);
}

Status Packer::WriteItem(const Item& item, gguf::Writer& writer) {
  if (const auto* tensor = std::get_if<const gguf::TensorInfo*>(&item)) {
    const gguf::TensorInfo& info = **tensor;
    return WriteCopy(info.name, {info.data, info.num_bytes}, writer);
  }
  if (const auto* gates = std::get_if<LayerGates>(&item)) {
    return WriteGates(gates->layer_idx, writer);
  }
  if (const auto* records = std::get_if<LayerRecords>(&item)) {
    return WriteRecords(records->layer_idx, writer);
  }
  const PartTensor& part = *std::get<const PartTensor*>(item);
  return WriteCopy(part.name, part.data(), writer);
}

Status Packer::Write(const std::string& output) {
  // The container settles what some architectures mean (docs/formats).
  const gguf::Container container =
      source_.config().predictor.kind == model::PredictorKind::kPowerInfer
          ? gguf::Container::kPowerInfer
          : source_.file().container();
  TC_ASSIGN_OR_RETURN(
      const auto writer,
      gguf::Writer::Create(output, container, neuron::kStorageAlignment));
  ListItems();
  TC_RETURN_IF_ERROR(AddKeys(*writer));
  TC_RETURN_IF_ERROR(Declare(*writer));
  TC_RETURN_IF_ERROR(writer->Start());
  for (const Item& item : items_) TC_RETURN_IF_ERROR(WriteItem(item, *writer));
  ReportProgress(options_.progress, "packing", num_total_, num_total_);
  return writer->Finish();
}

PackSummary Packer::Summarise(const std::string& output) const {
  std::error_code error;
  const uint64_t on_disk = std::filesystem::file_size(output, error);
  return {.layers = layers_,
          .down_error = cost_.RelativeError(),
          .why_in_number_order =
              options_.in_order ? WhyInNumberOrder(source_, parts_) : "",
          .num_source_bytes = source_.file().num_file_bytes(),
          .num_bytes = error ? num_total_ : on_disk};
}

// Also of the file that better weights come from.
Status RefuseToReplace(const std::string& output, const model::Model& input) {
  std::vector<std::string> paths = {input.file().path()};
  if (const auto name = gguf::ParseShardName(paths.front())) {
    for (int i = 1; i <= name->count; ++i) {
      paths.push_back(gguf::ShardPath(name->prefix, i, name->count));
    }
  }
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::equivalent(output, path, error) || error) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "{}: the output would replace what it is made from; give "
                "another name",
                output);
  }
  return {};
}

}  // namespace

Result<PackSummary> Pack(const model::Model& source, const PreparedParts& parts,
                         const std::string& output,
                         const PackOptions& options) {
  TC_RETURN_IF_ERROR(RefuseToReplace(output, source));
  if (options.down_source != nullptr) {
    TC_RETURN_IF_ERROR(RefuseToReplace(output, *options.down_source));
  }
  const Status checked = CheckParts(parts, source.config());
  if (!checked) return Annotate(source.file().path(), checked.error());
  TC_ASSIGN_OR_RETURN(auto layers, PlanRecords(source, parts, options));
  // Not pinned: other programs may be at work.
  TC_ASSIGN_OR_RETURN(const auto pool,
                      os::ThreadPool::Create(
                          {.num_threads = options.num_threads, .pin = false}));
  Packer packer(source, parts, options, std::move(layers), pool.get());
  TC_RETURN_IF_ERROR(packer.Write(output));
  return packer.Summarise(output);
}

}  // namespace thermocline::pack
