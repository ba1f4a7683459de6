#include "inspect/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "engine/ffn/ffn_choice.h"
#include "engine/kv/kv_layout.h"
#include "kernels/isa.h"
#include "model/model.h"
#include "model/vocab_metadata.h"
#include "text/tokenizer.h"

namespace thermocline::inspect {
namespace {

// A key's value, empty as well when its type is another.
std::optional<int64_t> IntOrNothing(const gguf::File& file,
                                    const std::string& key) {
  return file.Int(key).value_or(std::nullopt);
}

std::optional<std::string> StringOrNothing(const gguf::File& file,
                                           const std::string& key) {
  return file.String(key).value_or(std::nullopt);
}

ModelShape ReadShape(const gguf::File& file, const std::string& architecture) {
  const auto read = [&](const char* key) {
    return IntOrNothing(file, fmt::format("{}.{}", architecture, key));
  };
  ModelShape shape;
  shape.context_length = read("context_length");
  shape.num_layers = read("block_count");
  shape.width = read("embedding_length");
  shape.ffn_width = read("feed_forward_length");
  shape.num_heads = read("attention.head_count");
  shape.num_kv_heads = read("attention.head_count_kv");
  if (!shape.num_kv_heads.has_value()) shape.num_kv_heads = shape.num_heads;
  shape.key_width = read("attention.key_length");
  shape.value_width = read("attention.value_length");
  if (shape.width.has_value() && shape.num_heads.value_or(0) > 0) {
    const int64_t share = *shape.width / *shape.num_heads;
    if (!shape.key_width.has_value()) shape.key_width = share;
    if (!shape.value_width.has_value()) shape.value_width = share;
  }
  shape.num_experts = read("expert_count");
  shape.num_experts_used = read("expert_used_count");
  return shape;
}

void ListTensors(const gguf::File& file, InspectReport& report) {
  std::map<std::tuple<std::string, DType, std::array<uint64_t, kMaxDims>>,
           size_t>
      row_of_group;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    TensorPlace place = PlaceOf(tensor.name);
    const auto [entry, is_new] = row_of_group.try_emplace(
        {place.group_name, tensor.dtype, tensor.shape.ne},
        report.tensors.size());
    if (is_new) {
      report.tensors.push_back({.name = std::move(place.group_name),
                                .role = place.role,
                                .layer = place.layer,
                                .dtype = tensor.dtype,
                                .shape = tensor.shape,
                                .num_tensors = 0});
    }
    TensorRow& row = report.tensors[entry->second];
    ++row.num_tensors;
    row.num_bytes += tensor.num_bytes;
    const bool is_weight =
        row.role != TensorRole::kFindings && InfoOf(tensor.dtype).can_compute;
    row.num_params += is_weight ? tensor.shape.num_elems() : 0;
  }
}

void AddTotal(InspectReport& report) {
  for (const TensorRow& row : report.tensors) {
    report.total.num_tensors += row.num_tensors;
    report.total.num_bytes += row.num_bytes;
    report.total.num_params += row.num_params;
  }
}

// What prepared files have in place of matrices, and beside them.
void DescribePrepared(const gguf::File& file, InspectReport& report) {
  const auto config = model::ReadConfig(file);
  if (config.has_value()) CountRecords(*config, report.tensors);
  report.prepared = ReadPreparedFacts(
      file, config.has_value() ? &*config : nullptr, report.tensors);
}

Sparsity ReadSparsity(const gguf::File& file,
                      std::span<const TensorRow> tensors) {
  Sparsity sparsity;
  const auto threshold = file.Float("powerinfer.sparse_threshold");
  if (threshold.has_value() && threshold->has_value()) {
    sparsity.score_threshold = static_cast<float>(**threshold);
  }
  int num_layers = 0;
  std::map<int, int64_t> rank_of_layer;
  for (const TensorRow& row : tensors) {
    if (!row.layer.has_value()) continue;
    num_layers = std::max(num_layers, *row.layer + 1);
    if (row.role != TensorRole::kPredictorUp &&
        row.role != TensorRole::kPredictorDown) {
      continue;
    }
    if (row.name.ends_with(".bias")) {
      sparsity.predictor_bias = true;
    } else if (row.role == TensorRole::kPredictorUp) {
      rank_of_layer[*row.layer] = static_cast<int64_t>(row.shape.ne[1]);
    }
  }
  if (rank_of_layer.empty()) return sparsity;
  sparsity.predictor_ranks.assign(static_cast<size_t>(num_layers), 0);
  for (const auto& [layer, rank] : rank_of_layer) {
    sparsity.predictor_ranks[static_cast<size_t>(layer)] = rank;
  }
  return sparsity;
}

// How many of a layer's neurons a PowerInfer index puts on the GPU.
int64_t CountOnGpu(const gguf::TensorInfo& index) {
  int64_t count = 0;
  for (uint64_t i = 0; i < index.shape.num_elems(); ++i) {
    int32_t flag = 0;
    std::memcpy(&flag, index.data + i * sizeof(flag), sizeof(flag));
    count += flag == 1;
  }
  return count;
}

std::optional<SplitFile> ReadSplitFile(const gguf::File& file,
                                       const InspectReport& report) {
  SplitFile split;
  int64_t num_gpu_neurons = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (PlaceOf(tensor.name).role != TensorRole::kPlacement) return {};
    if (tensor.dtype != DType::kI32) return {};
    if (tensor.name.ends_with(".gpu_bucket")) continue;
    ++split.num_layers;
    split.num_neurons += static_cast<int64_t>(tensor.shape.num_elems());
    if (tensor.name.ends_with(".gpu_idx")) {
      num_gpu_neurons += CountOnGpu(tensor);
    }
  }
  if (split.num_layers == 0) return {};
  split.vram_bytes = IntOrNothing(file, "split.vram_capacity");
  split.neurons_per_group = IntOrNothing(file, "ffn_group_size");
  if (report.architecture == "generic.gpu_index") {
    split.kind = "PowerInfer GPU index";
    split.num_gpu_neurons = num_gpu_neurons;
  } else {
    split.kind = "KAIROX model split";
  }
  return split;
}

// One value of a key, as text without limits.
std::string ToText(const auto& value) {
  using T = std::remove_cvref_t<decltype(value)>;
  if constexpr (std::is_same_v<T, std::string>) {
    return Escape(value);
  } else {
    return fmt::format("{}", value);
  }
}

constexpr size_t kNumShown = 6;  // elements of an array
std::string ToText(const gguf::Array& array) {
  return std::visit(
      [](const auto& values) {
        std::string text;
        for (size_t i = 0; i < std::min(values.size(), kNumShown); ++i) {
          text += (i > 0 ? ", " : "") + ToText(values[i]);
        }
        return text + (values.size() > kNumShown
                           ? fmt::format(", ... ({} values)", values.size())
                           : "");
      },
      array.values);
}

void ListMetadata(const gguf::File& file, InspectReport& report) {
  for (const gguf::KeyValue& kv : file.metadata()) {
    const auto* const array = std::get_if<gguf::Array>(&kv.value);
    report.metadata.push_back(
        {.key = Escape(kv.key),
         .type = array == nullptr
                     ? std::string(NameOf(kv.type))
                     : fmt::format("array of {}", NameOf(array->elem_type)),
         .value = std::visit([](const auto& value) { return ToText(value); },
                             kv.value)});
  }
}

// A description of attention that PlanKvCache can trust; empty where the
// metadata does not say enough, or says it per layer.
std::optional<model::Config> AttentionByMetadata(const ModelShape& shape) {
  const auto within = [](std::optional<int64_t> value, int64_t most) {
    return value.has_value() && *value >= 1 && *value <= most;
  };
  if (!within(shape.num_layers, model::kMaxLayers) ||
      !within(shape.num_kv_heads, model::kMaxWidth) ||
      !within(shape.key_width, model::kMaxWidth) ||
      !within(shape.value_width, model::kMaxWidth) ||
      !within(*shape.num_kv_heads * *shape.key_width, model::kMaxWidth) ||
      !within(*shape.num_kv_heads * *shape.value_width, model::kMaxWidth)) {
    return {};
  }
  model::Config config;
  config.num_layers = static_cast<size_t>(*shape.num_layers);
  const model::LayerSpec layer = {
      .attention = {.num_kv_heads = static_cast<size_t>(*shape.num_kv_heads),
                    .key_width = static_cast<size_t>(*shape.key_width),
                    .value_width = static_cast<size_t>(*shape.value_width)}};
  config.layers.assign(config.num_layers, layer);
  return config;
}

std::optional<KvBytes> CountKvBytes(const InspectReport& report) {
  const std::optional<model::Config> config =
      report.config.has_value() ? report.config
                                : AttentionByMetadata(report.shape);
  if (!config.has_value() || report.tensors.empty()) return {};
  const auto bytes = [&](DType dtype) -> std::optional<uint64_t> {
    const auto layout = engine::PlanKvLayout(*config, dtype, dtype);
    if (!layout.has_value()) return {};
    return layout->position_bytes();
  };
  const std::optional<uint64_t> f16 = bytes(DType::kF16);
  if (!f16.has_value()) return {};
  return KvBytes{.f16 = *f16, .q8_0 = bytes(DType::kQ8_0)};
}

// The vocabulary, or why text cannot be used with it.
void ReadTokenizer(const gguf::File& file, InspectReport& report) {
  auto vocab = model::ReadVocab(file);
  if (!vocab.has_value()) {
    report.tokenizer_problem = vocab.error().message;
    return;
  }
  report.vocab = *std::move(vocab);
  if (!report.vocab.has_value()) return;
  const auto tokenizer = text::Tokenizer::Create(*report.vocab);
  if (!tokenizer.has_value()) {
    report.tokenizer_problem = tokenizer.error().message;
  }
}

// What can be said of a file that is no model for us.
void DescribeParts(const gguf::File& file, InspectReport& report) {
  ReadTokenizer(file, report);
  if (auto config = model::ReadConfig(file); config.has_value()) {
    report.config = *std::move(config);
  }
}

// What layers have in common, or what each of them has.
void UseLayerShapes(const model::Config& config, ModelShape& shape) {
  const auto use = [&](const auto& get, std::optional<int64_t>& number,
                       std::vector<int64_t>& of_layers) {
    for (const model::LayerSpec& layer : config.layers) {
      of_layers.push_back(static_cast<int64_t>(get(layer)));
    }
    number = of_layers.front();
    if (std::ranges::count(of_layers, *number) == std::ssize(of_layers)) {
      of_layers.clear();
    } else {
      number.reset();
    }
  };
  use([](const model::LayerSpec& layer) { return layer.ffn.width; },
      shape.ffn_width, shape.ffn_widths);
  use([](const model::LayerSpec& layer) { return layer.attention.num_heads; },
      shape.num_heads, shape.heads_of_layers);
  use(
      [](const model::LayerSpec& layer) {
        return layer.attention.num_kv_heads;
      },
      shape.num_kv_heads, shape.kv_heads_of_layers);
}

engine::FfnMode DefaultMode(const model::Model& model) {
  const auto choice = engine::ChooseFfn(model.config(), engine::FfnMode::kAuto,
                                        engine::PredictorChoice::kAuto);
  return choice.has_value() ? choice->mode : engine::FfnMode::kDense;
}

void DescribeModel(const model::Model& model, InspectReport& report) {
  report.config = model.config();
  UseLayerShapes(model.config(), report.shape);
  if (model.tokenizer() != nullptr) {
    report.vocab = model.tokenizer()->vocab();
  } else {
    ReadTokenizer(model.file(), report);
  }
  const engine::SessionOptions options;
  const auto memory = engine::PlanMemory(model.config(), options);
  if (!memory.has_value()) {
    report.cannot_run = memory.error().message;
    return;
  }
  report.memory = *memory;
  report.weight_bytes_per_token = engine::WeightBytesPerToken(model);
  report.executor = NameOf(DefaultMode(model));
  report.tied_head = model.weights().tied;
  report.memory_context =
      std::min(model.config().context_length, engine::kDefaultContextMax);
}

// Empty: it may be one.
std::string WhyNoModel(const gguf::File& file, const InspectReport& report) {
  if (report.split.has_value()) {
    return fmt::format("it is a {}, which lies beside a model",
                       report.split->kind);
  }
  if (report.prepared.has_value() && !report.prepared->has_model) {
    return "it holds predictors without their model: give it to `thermocline "
           "prepare`";
  }
  return file.tensors().empty() ? "there are no tensors, only metadata" : "";
}

}  // namespace

std::map<int, std::map<TensorClass, uint64_t>> BytesByLayer(
    std::span<const TensorRow> rows) {
  std::map<int, std::map<TensorClass, uint64_t>> layers;
  for (const TensorRow& row : rows) {
    if (row.layer.has_value()) {
      layers[*row.layer][ClassOf(row.role)] += row.num_bytes;
    }
  }
  return layers;
}

std::array<SpecialToken, 6> SpecialTokens(const text::Vocab& vocab) {
  return {{{"bos", vocab.bos},
           {"eos", vocab.eos},
           {"eot", vocab.eot},
           {"eom", vocab.eom},
           {"unk", vocab.unk},
           {"pad", vocab.pad}}};
}

double BitsPerWeight(const TensorUse& use) {
  if (use.num_params == 0) return 0.0;
  return 8.0 * static_cast<double>(use.num_bytes) /
         static_cast<double>(use.num_params);
}

std::string DescribeRanks(const Sparsity& sparsity) {
  int64_t least = 0;
  int64_t most = 0;
  for (const int64_t rank : sparsity.predictor_ranks) {
    if (rank == 0) continue;
    least = least == 0 ? rank : std::min(least, rank);
    most = std::max(most, rank);
  }
  if (most == 0) return "";
  return least == most ? fmt::format("{}", most)
                       : fmt::format("{} to {}", least, most);
}

std::string ListRanks(const Sparsity& sparsity) {
  const std::vector<int64_t>& ranks = sparsity.predictor_ranks;
  std::string text;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[begin]) ++end;
    text += begin > 0 ? ", " : "";
    text += end - begin == 1 ? fmt::format("{}: ", begin)
                             : fmt::format("{}-{}: ", begin, end - 1);
    text += fmt::format("{}", ranks[begin]);
    begin = end;
  }
  return text;
}

std::string DescribeNumber(std::optional<int64_t> number,
                           const std::vector<int64_t>& of_layers) {
  if (number.has_value()) return fmt::format("{}", *number);
  if (of_layers.empty()) return "";
  const auto [least, most] = std::ranges::minmax(of_layers);
  return fmt::format("{} to {}, by layer", least, most);
}

std::string DescribeRope(const model::Config& config) {
  if (config.ropes.empty()) return "none";
  const model::RopeConfig& rope = config.ropes.front();
  std::string widths;
  for (const model::RopeConfig& each : config.ropes) {
    widths += fmt::format("{}{}", widths.empty() ? "" : " or ", each.width);
  }
  return fmt::format("{}, {} elements per head, base {}, scaling {}{}",
                     NameOf(rope.kind), widths, rope.freq_base,
                     NameOf(rope.scaling),
                     rope.scaling == model::RopeScaling::kNone
                         ? ""
                         : fmt::format(" by {}", rope.factor));
}

std::string DescribeActivation(const model::FfnSpec& ffn) {
  return fmt::format("{}{}{}", NameOf(ffn.activation),
                     ffn.activation == Activation::kFatRelu
                         ? fmt::format("({})", ffn.threshold)
                         : "",
                     ffn.gated ? ", gated" : "");
}

Result<InspectReport> InspectModel(const std::string& path) {
  TC_ASSIGN_OR_RETURN(auto file, gguf::File::Open(path));
  InspectReport report;
  report.path = path;
  report.container = file->container();
  report.gguf_version = file->version();
  report.num_shards = file->num_shards();
  report.num_file_bytes = file->num_file_bytes();
  report.architecture = StringOrNothing(*file, "general.architecture");
  report.name = StringOrNothing(*file, "general.name");
  report.tokenizer_model = StringOrNothing(*file, "tokenizer.ggml.model");
  report.shape = ReadShape(*file, report.architecture.value_or(""));
  report.isa = kernels::NameOf(kernels::BestIsa());
  ListMetadata(*file, report);
  ListTensors(*file, report);
  report.sparsity = ReadSparsity(*file, report.tensors);
  report.split = ReadSplitFile(*file, report);
  const LogOnceScope log_once;
  DescribePrepared(*file, report);
  AddTotal(report);
  report.cannot_run = WhyNoModel(*file, report);
  if (!report.cannot_run.empty()) {
    DescribeParts(*file, report);
    return report;
  }
  // Opens the model as `run` would; what fails takes the file along.
  const auto model = model::Model::FromFile(std::move(file));
  if (model.has_value()) {
    DescribeModel(**model, report);
  } else {
    report.cannot_run = model.error().message;
    TC_ASSIGN_OR_RETURN(file, gguf::File::Open(path));
    DescribeParts(*file, report);
  }
  report.kv_bytes = CountKvBytes(report);
  return report;
}

}  // namespace thermocline::inspect
