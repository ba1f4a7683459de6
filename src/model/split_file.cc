#include "model/split_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>

#include "base/keyed_hash.h"
#include "base/permutation.h"
#include "base/quote.h"

namespace thermocline::model {
namespace {

constexpr std::string_view kOther = "(a split of another model?)";
constexpr std::string_view kGroupSize = "ffn_group_size";
constexpr std::string_view kPattern = "ffn_normalized_pattern";
constexpr std::string_view kGpuIndex = "generic.gpu_index";
constexpr std::string_view kGpuLayers = "generic.gpu_index.block_count";
constexpr std::string_view kVram = "split.vram_capacity";

Result<int64_t> RequireInt(const gguf::File& file, std::string_view key) {
  TC_ASSIGN_OR_RETURN(const auto value, file.Int(key));
  if (value) return *value;
  return Fail(ErrorCode::kCorrupt, "{}: key \"{}\" is missing", file.path(),
              key);
}

// Reads I32 vectors by name and remembers which, to notice what is left.
class Reader {
 public:
  Reader(const gguf::File& file, const Config& config)
      : file_(file),
        num_neurons_(CommonFfn(config).width),
        num_layers_(config.num_layers) {}

  const gguf::File& file() const { return file_; }
  uint64_t num_neurons() const { return num_neurons_; }
  size_t num_layers() const { return num_layers_; }

  static std::string NameOf(size_t layer_idx, std::string_view role) {
    return fmt::format("blk.{}.{}", layer_idx, role);
  }
  bool Has(const std::string& name) const {
    return file_.FindTensor(name) != nullptr;
  }

  template <typename... Args>
  tl::unexpected<Error> Wrong(const std::string& name,
                              fmt::format_string<Args...> format,
                              Args&&... args) const {
    return Fail(ErrorCode::kCorrupt, "{}: tensor \"{}\"{}", file_.path(), name,
                fmt::format(format, std::forward<Args>(args)...));
  }

  // F elements in [0, limit).
  Result<std::vector<uint32_t>> TakeOnePerNeuron(const std::string& name,
                                                 uint64_t limit) {
    TC_ASSIGN_OR_RETURN(auto values, Take(name, limit));
    if (values.size() == num_neurons_) return values;
    return Wrong(name,
                 " has {} elements; the model has {} neurons per layer "
                 "{}",
                 values.size(), num_neurons_, kOther);
  }

  Result<std::vector<uint32_t>> Take(const std::string& name, uint64_t limit);

  // kCorrupt when the file has a tensor that nobody took.
  Status CheckAllTaken() const;

 private:
  const gguf::File& file_;
  uint64_t num_neurons_;
  size_t num_layers_;
  std::unordered_set<std::string, KeyedHash> taken_;
};

Result<std::vector<uint32_t>> Reader::Take(const std::string& name,
                                           uint64_t limit) {
  const gguf::TensorInfo* info = file_.FindTensor(name);
  if (info == nullptr) {
    return Wrong(name, " is missing; the model has {} layers {}", num_layers_,
                 kOther);
  }
  taken_.insert(name);
  if (info->dtype != DType::kI32 || info->shape.num_rows() != 1) {
    return Wrong(name, " is {} {}; a vector of I32 belongs there",
                 thermocline::NameOf(info->dtype), ToString(info->shape));
  }
  if (info->shape.ne[0] > num_neurons_) {
    return Wrong(name,
                 " has {} elements; the model has {} neurons per layer "
                 "{}",
                 info->shape.ne[0], num_neurons_, kOther);
  }
  std::vector<uint32_t> values(info->shape.ne[0]);
  for (size_t i = 0; i < values.size(); ++i) {
    int32_t value = 0;
    std::memcpy(&value, info->data + i * sizeof(value), sizeof(value));
    if (value < 0 || static_cast<uint64_t>(value) >= limit) {
      return Wrong(name, ": element {} is {}; it must be 0 to {}", i, value,
                   limit - 1);
    }
    values[i] = static_cast<uint32_t>(value);
  }
  return values;
}

Status Reader::CheckAllTaken() const {
  for (const gguf::TensorInfo& info : file_.tensors()) {
    if (taken_.contains(info.name)) continue;
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor {} belongs to no layer of the model, which has {} "
                "{}",
                file_.path(), Quote(info.name), num_layers_, kOther);
  }
  return {};
}

// Shares of a cache, one per layer.
Result<std::vector<float>> ReadPattern(const Reader& reader) {
  const gguf::File& file = reader.file();
  const auto* values = file.Elements<double>(kPattern);
  if (values == nullptr) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"{}\" must be an array of floats, one per layer",
                file.path(), kPattern);
  }
  if (values->size() != reader.num_layers()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"{}\" has {} elements; the model has {} layers {}",
                file.path(), kPattern, values->size(), reader.num_layers(),
                kOther);
  }
  double total = 0.0;
  for (size_t i = 0; i < values->size(); ++i) {
    const double value = (*values)[i];
    if (!(value >= 0.0)) {  // NaN neither
      return Fail(ErrorCode::kCorrupt,
                  "{}: key \"{}\": element {} is {}; shares are >= 0 and sum "
                  "to 1",
                  file.path(), kPattern, i, value);
    }
    total += value;
  }
  if (!(std::abs(total - 1.0) <= 1e-3)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"{}\" must be shares >= 0 that sum to 1; their sum "
                "is {}",
                file.path(), kPattern, total);
  }
  return std::vector<float>(values->begin(), values->end());
}

Result<NeuronOrder> ReadOrder(Reader& reader) {
  const gguf::File& file = reader.file();
  NeuronOrder order;
  TC_ASSIGN_OR_RETURN(const int64_t group_size, RequireInt(file, kGroupSize));
  const size_t num_neurons = reader.num_neurons();
  if (group_size < 1 || num_neurons % static_cast<size_t>(group_size) != 0) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"{}\" is {}; it must divide the {} neurons of a "
                "layer {}",
                file.path(), kGroupSize, group_size, num_neurons, kOther);
  }
  order.group_size = static_cast<size_t>(group_size);
  TC_ASSIGN_OR_RETURN(order.pattern, ReadPattern(reader));
  for (size_t l = 0; l < reader.num_layers(); ++l) {
    const std::string name = Reader::NameOf(l, "ffn_reorder_perms");
    TC_ASSIGN_OR_RETURN(auto neurons,
                        reader.TakeOnePerNeuron(name, reader.num_neurons()));
    // They are all in range: what is misplaced occurs twice.
    const auto misplaced =
        FindMisplaced(neurons.size(), neurons.size(),
                      [&](size_t place) { return neurons[place]; });
    if (misplaced) {
      return reader.Wrong(name, " is no permutation: {} occurs twice",
                          neurons[*misplaced]);
    }
    order.layers.push_back(std::move(neurons));
  }
  return order;
}

// One layer: a flag per neuron, and the flagged neurons as a list. A layer
// that is wholly on one side needs no list.
Result<std::vector<uint32_t>> ReadHotLayer(Reader& reader, size_t layer_idx) {
  const std::string flags_name = Reader::NameOf(layer_idx, "gpu_idx");
  TC_ASSIGN_OR_RETURN(const auto flags, reader.TakeOnePerNeuron(flags_name, 2));
  std::vector<uint32_t> flagged;
  for (uint32_t neuron = 0; neuron < flags.size(); ++neuron) {
    if (flags[neuron] == 1) flagged.push_back(neuron);
  }
  const std::string list_name = Reader::NameOf(layer_idx, "gpu_bucket");
  if (!reader.Has(list_name) &&
      (flagged.empty() || flagged.size() == flags.size())) {
    return flagged;
  }
  TC_ASSIGN_OR_RETURN(const auto list,
                      reader.Take(list_name, reader.num_neurons()));
  for (size_t i = 1; i < list.size(); ++i) {
    if (list[i] > list[i - 1]) continue;
    return reader.Wrong(list_name,
                        ": element {} is {} behind {}; neurons must ascend", i,
                        list[i], list[i - 1]);
  }
  if (list == flagged) return flagged;
  return reader.Wrong(list_name,
                      " lists {} neurons that are not the {} which \"{}\" "
                      "flags",
                      list.size(), flagged.size(), flags_name);
}

Result<HotNeurons> ReadHot(Reader& reader) {
  const gguf::File& file = reader.file();
  TC_ASSIGN_OR_RETURN(const int64_t num_layers, RequireInt(file, kGpuLayers));
  if (std::cmp_not_equal(num_layers, reader.num_layers())) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"{}\" is {}; the model has {} layers {}", file.path(),
                kGpuLayers, num_layers, reader.num_layers(), kOther);
  }
  HotNeurons hot;
  TC_ASSIGN_OR_RETURN(const int64_t vram_bytes, RequireInt(file, kVram));
  if (vram_bytes < 0) {
    return Fail(ErrorCode::kCorrupt, "{}: key \"{}\" is {}; it must be >= 0",
                file.path(), kVram, vram_bytes);
  }
  hot.vram_bytes = static_cast<uint64_t>(vram_bytes);
  for (size_t l = 0; l < reader.num_layers(); ++l) {
    TC_ASSIGN_OR_RETURN(auto layer, ReadHotLayer(reader, l));
    hot.layers.push_back(std::move(layer));
  }
  return hot;
}

}  // namespace

bool IsSplitFile(const gguf::File& file) {
  const gguf::KeyValue* kv = file.Find("general.architecture");
  const auto* architecture =
      kv == nullptr ? nullptr : std::get_if<std::string>(&kv->value);
  return (architecture != nullptr && *architecture == kGpuIndex) ||
         file.Find(kGroupSize) != nullptr ||
         file.FindTensor(Reader::NameOf(0, "ffn_reorder_perms")) != nullptr;
}

Result<Split> ReadSplit(const gguf::File& file, const Config& config) {
  TC_ASSIGN_OR_RETURN(const auto architecture,
                      file.String("general.architecture"));
  TC_RETURN_IF_ERROR(CheckEqualWidths(config, file.path() + ": a split file"));
  Reader reader(file, config);
  Split split;
  if (architecture == kGpuIndex) {
    TC_ASSIGN_OR_RETURN(split.hot, ReadHot(reader));
  } else if (IsSplitFile(file)) {
    TC_ASSIGN_OR_RETURN(split.order, ReadOrder(reader));
  } else {
    return Fail(ErrorCode::kUnsupported,
                "{}: not a split file: neither KAIROX's key \"{}\" nor "
                "PowerInfer's architecture \"{}\"",
                file.path(), kGroupSize, kGpuIndex);
  }
  TC_RETURN_IF_ERROR(reader.CheckAllTaken());
  return split;
}

}  // namespace thermocline::model
