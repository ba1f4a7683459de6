#include "convert/pack.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/quote.h"
#include "convert/pack_names.h"
#include "convert/pack_tensors.h"
#include "gguf/split.h"
#include "gguf/writer.h"
#include "model/bundle.h"
#include "model/prepared_names.h"
#include "model/profile_file.h"
#include "neuron/record_builder.h"
#include "os/thread_pool.h"

namespace thermocline::convert {
namespace {

namespace prepared = model::prepared;
using neuron::RecordBuilder;

constexpr uint64_t kCopyBytes = uint64_t{4} << 20;
constexpr uint64_t kRecordBytes = uint64_t{32} << 20;  // built at a time

PackedLayer PlanLayer(const model::FfnWeights& down_from,
                      std::optional<neuron::RecordLayout> layout) {
  const model::FfnMatrices& ffn = model::ExpertsOf(down_from).front();
  return {.layout = layout,
          .down_source = ffn.down_t ? ffn.down_t.dtype : ffn.down.dtype};
}

// Of better weights for the down columns.
Status CheckDownSource(const model::Model& source, const model::Model* better) {
  if (better == nullptr) return {};
  return model::CheckSameModel(
      model::FingerprintOf(*better), source,
      better->file().path() + ": the down columns in it are");
}

// The model is named in the error already. Gate and up rows have D elements in
// the source too: what does not fit is the type of down, or of none of them.
std::string AdviseFor(const model::Config& config, const PackOptions& options,
                      const Error& error) {
  const char* fits = config.width % 32 == 0
                         ? "Q8_0 or Q4_0, whose blocks of 32 do"
                         : "F16, which has no blocks";
  if (options.down_dtype) {
    return fmt::format("{}; --down-type can be {}", error.message, fits);
  }
  return fmt::format(
      "{}; give down another type with --down-type, or quantise the model, to "
      "{}",
      error.message, fits);
}

// One tensor of the output: of the source, a layer's records, or a part.
using Item = std::variant<const gguf::TensorInfo*, size_t, const PartTensor*>;

class Packer {
 public:
  Packer(const model::Model& source, const PreparedParts& parts,
         const PackOptions& options, std::vector<PackedLayer> layers,
         os::ThreadPool* pool)
      : source_(source),
        parts_(parts),
        options_(options),
        layers_(std::move(layers)),
        part_tensors_(TensorsOf(parts, source.config())),
        builder_(pool) {}

  Status Write(const std::string& output);
  PackSummary Summarise(const std::string& output) const;

 private:
  void ListItems();
  Status AddKeys(gguf::Writer& writer) const;
  Status AddRecordKeys(gguf::Writer& writer) const;
  Status Declare(gguf::Writer& writer);
  Status WriteCopy(std::string_view name, std::span<const std::byte> bytes,
                   gguf::Writer& writer);
  Status WriteRecords(size_t layer_idx, gguf::Writer& writer);
  Status WriteFfn(size_t layer_idx, const neuron::RecordSource& source,
                  neuron::DownCost& cost, gguf::Writer& writer);
  Status Step(std::string_view what, uint64_t num_bytes);
  neuron::RecordSource SourceOf(size_t layer_idx, size_t expert_idx) const;
  uint64_t neurons_per_ffn() const {
    return static_cast<uint64_t>(source_.config().ffn_width);
  }
  uint64_t neurons_per_layer() const {
    return static_cast<uint64_t>(NeuronsPerLayer(source_.config()));
  }

  const model::Model& source_;
  const PreparedParts& parts_;
  const PackOptions& options_;
  std::vector<PackedLayer> layers_;
  std::vector<PartTensor> part_tensors_;
  std::vector<Item> items_;
  RecordBuilder builder_;
  std::vector<std::byte> records_;  // a piece of them
  neuron::DownCost cost_;           // of all layers
  uint64_t num_total_ = 0;          // bytes of tensors
  uint64_t num_done_ = 0;
};

// The records stand where the first matrix of the layer's FFN stood.
void Packer::ListItems() {
  std::set<int64_t> bundled;
  for (const gguf::TensorInfo& tensor : source_.file().tensors()) {
    const auto name = ParseLayerName(tensor.name);
    const bool is_ffn =
        name && (IsFfnMatrix(name->rest) || name->rest == prepared::kRecords);
    const bool is_bundled =
        is_ffn && std::cmp_less(name->layer_idx, layers_.size()) &&
        layers_[static_cast<size_t>(name->layer_idx)].layout.has_value();
    if (is_bundled) {
      if (bundled.insert(name->layer_idx).second) {
        items_.emplace_back(static_cast<size_t>(name->layer_idx));
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
  std::vector<std::string> types;
  std::vector<int64_t> strides;
  for (const PackedLayer& layer : layers_) {
    if (!layer.layout) return {};
    if (layer.layout->gate) types.emplace_back(NameOf(*layer.layout->gate));
    types.emplace_back(NameOf(layer.layout->up));
    types.emplace_back(NameOf(layer.layout->down));
    strides.push_back(static_cast<int64_t>(layer.layout->stride));
  }
  TC_RETURN_IF_ERROR(writer.AddArray(
      prepared::kRecordTypes,
      {.elem_type = gguf::ValueType::kString, .values = std::move(types)}));
  return writer.AddArray(
      prepared::kRecordStride,
      {.elem_type = gguf::ValueType::kU64, .values = std::move(strides)});
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
  return AddPartKeys(parts_, writer);
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
    } else if (const auto* layer_idx = std::get_if<size_t>(&item)) {
      TC_RETURN_IF_ERROR(
          declare(prepared::OfLayer(static_cast<int64_t>(*layer_idx),
                                    prepared::kRecords),
                  DType::kI8,
                  {.ne = {layers_[*layer_idx].layout->stride,
                          neurons_per_layer(), 1, 1},
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
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min<size_t>(bytes.size(), kCopyBytes));
    TC_RETURN_IF_ERROR(Step(name, piece.size()));
    TC_RETURN_IF_ERROR(writer.WriteTensorData(piece));
    bytes = bytes.subspan(piece.size());
  }
  return {};
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
  const std::string name =
      prepared::OfLayer(static_cast<int64_t>(layer_idx), prepared::kRecords);
  const uint64_t units =
      kRecordBytes / layout.stride / RecordBuilder::kUnitNeurons;
  const uint64_t piece =
      std::max(uint64_t{1}, units) * RecordBuilder::kUnitNeurons;
  for (uint64_t first = 0; first < neurons_per_ffn(); first += piece) {
    const uint64_t count = std::min(piece, neurons_per_ffn() - first);
    records_.resize(count * layout.stride);
    TC_RETURN_IF_ERROR(Step(name, records_.size()));
    cost.Add(builder_.Build(layout, source, first, count, records_.data()));
    TC_RETURN_IF_ERROR(writer.WriteTensorData(records_));
  }
  return {};
}

Status Packer::WriteRecords(size_t layer_idx, gguf::Writer& writer) {
  const size_t num_ffns =
      model::ExpertsOf(source_.weights().layers[layer_idx].ffn).size();
  neuron::DownCost cost;
  for (size_t i = 0; i < num_ffns; ++i) {
    TC_RETURN_IF_ERROR(
        WriteFfn(layer_idx, SourceOf(layer_idx, i), cost, writer));
  }
  layers_[layer_idx].down_error = cost.RelativeError();
  cost_.Add(cost);
  // A type that cannot hold the values loses most of them, or gives infinity.
  constexpr double kMostError = 0.5;
  if (layers_[layer_idx].down_error <= kMostError) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: layer {}: the down columns as {} differ from the weights by "
              "{:.2g} of them: weights that are not finite (a damaged file? "
              "--check-tensors finds where) or too large for the type",
              source_.file().path(), layer_idx,
              NameOf(layers_[layer_idx].layout->down),
              layers_[layer_idx].down_error);
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
  for (const Item& item : items_) {
    if (const auto* tensor = std::get_if<const gguf::TensorInfo*>(&item)) {
      const gguf::TensorInfo& info = **tensor;
      TC_RETURN_IF_ERROR(
          WriteCopy(info.name, {info.data, info.num_bytes}, *writer));
    } else if (const auto* layer_idx = std::get_if<size_t>(&item)) {
      TC_RETURN_IF_ERROR(WriteRecords(*layer_idx, *writer));
    } else {
      const PartTensor& part = *std::get<const PartTensor*>(item);
      TC_RETURN_IF_ERROR(WriteCopy(part.name, part.data(), *writer));
    }
  }
  ReportProgress(options_.progress, "packing", num_total_, num_total_);
  return writer->Finish();
}

PackSummary Packer::Summarise(const std::string& output) const {
  std::error_code error;
  const uint64_t on_disk = std::filesystem::file_size(output, error);
  return {.layers = layers_,
          .down_error = cost_.RelativeError(),
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

Result<std::vector<PackedLayer>> PlanRecords(const model::Model& source,
                                             const PackOptions& options) {
  const model::Model& down_from =
      options.down_source == nullptr ? source : *options.down_source;
  TC_RETURN_IF_ERROR(CheckDownSource(source, options.down_source));
  std::vector<neuron::RecordLayout> layouts = source.config().records;
  if (options.bundle) {
    auto planned = model::PlanLayouts(source.file().path(), source.config(),
                                      source.weights(),
                                      {.down_dtype = options.down_dtype,
                                       .alignment = options.record_alignment});
    if (!planned) {
      return Fail(planned.error().code, "{}",
                  AdviseFor(source.config(), options, planned.error()));
    }
    layouts = *std::move(planned);
  }
  std::vector<PackedLayer> layers;
  for (size_t i = 0; i < source.weights().layers.size(); ++i) {
    std::optional<neuron::RecordLayout> layout;
    if (!layouts.empty()) layout = layouts[i];
    layers.push_back(PlanLayer(down_from.weights().layers[i].ffn, layout));
  }
  return layers;
}

Result<PackSummary> Pack(const model::Model& source, const PreparedParts& parts,
                         const std::string& output,
                         const PackOptions& options) {
  TC_RETURN_IF_ERROR(RefuseToReplace(output, source));
  if (options.down_source != nullptr) {
    TC_RETURN_IF_ERROR(RefuseToReplace(output, *options.down_source));
  }
  const Status checked = CheckParts(parts, source.config());
  if (!checked) return Annotate(source.file().path(), checked.error());
  TC_ASSIGN_OR_RETURN(auto layers, PlanRecords(source, options));
  // Not pinned: other programs may be at work.
  TC_ASSIGN_OR_RETURN(const auto pool,
                      os::ThreadPool::Create(
                          {.num_threads = options.num_threads, .pin = false}));
  Packer packer(source, parts, options, std::move(layers), pool.get());
  TC_RETURN_IF_ERROR(packer.Write(output));
  return packer.Summarise(output);
}

}  // namespace thermocline::convert
