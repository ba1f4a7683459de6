#include "model/config.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/math.h"
#include "base/quote.h"
#include "model/architectures.h"
#include "model/key_reader.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "model/refused_keys.h"
#include "model/split_file.h"

namespace thermocline::model {
namespace {

constexpr int64_t kMaxContext = std::numeric_limits<int32_t>::max();
constexpr double kMaxRopeFactor = 1e6;
constexpr double kMaxFloat = std::numeric_limits<float>::max();

// Which architecture the file has. Adapters and projectors carry the name of
// the model that they belong to: they are told apart by their type.
Result<const Architecture*> ReadArchitecture(const gguf::File& file) {
  TC_ASSIGN_OR_RETURN(const auto type, file.String("general.type"));
  if (type && *type != "model") {
    return Fail(ErrorCode::kUnsupported,
                "{}: key \"general.type\" is {}: not a model by itself",
                file.path(), Quote(*type));
  }
  TC_ASSIGN_OR_RETURN(const auto name, file.String("general.architecture"));
  if (!name) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"general.architecture\" is missing", file.path());
  }
  const Architecture* architecture = FindArchitecture(*name);
  if (IsSplitFile(file)) {
    return Fail(ErrorCode::kUnsupported,
                "{}: a split file, which lies beside a model: give the model "
                "with -m and this file with --split",
                file.path());
  }
  if (architecture != nullptr) return architecture;
  return Fail(ErrorCode::kUnsupported,
              "{}: the architecture {} does not run in this version; those "
              "that do: {}",
              file.path(), Quote(*name), ListArchitectures());
}

// Files of PowerInfer are known by their tensors too: tools that rewrite a file
// may give it the usual first bytes.
bool IsPowerInfer(const gguf::File& file) {
  return file.container() == gguf::Container::kPowerInfer ||
         file.FindTensor("blk.0.fc1.weight") != nullptr;
}

// The tensor is the truth about the vocabulary's size; a key must agree.
Status ReadVocabSize(const KeyReader& keys, Config& config) {
  constexpr std::string_view kEmbedding = "token_embd.weight";
  const gguf::File& file = keys.file();
  const gguf::TensorInfo* embedding = file.FindTensor(kEmbedding);
  if (embedding == nullptr) {
    return Fail(
        ErrorCode::kCorrupt, "{}: tensor \"{}\" is missing{}", file.path(),
        kEmbedding,
        file.tensors().empty() ? " (a vocabulary without a model?)" : "");
  }
  const uint64_t num_rows = embedding->shape.num_rows();
  if (!std::in_range<int32_t>(num_rows)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor \"{}\" has {} rows: too many for a vocabulary",
                file.path(), kEmbedding, num_rows);
  }
  config.vocab_size = static_cast<int64_t>(num_rows);
  TC_ASSIGN_OR_RETURN(
      const int64_t by_key,
      keys.IntOr("vocab_size", 0, kMaxContext, config.vocab_size));
  if (by_key != config.vocab_size) {
    return keys.Wrong(
        "vocab_size", by_key,
        fmt::format("tensor \"{}\" has {} rows", kEmbedding, num_rows));
  }
  return {};
}

Status ReadExtents(const KeyReader& keys, Config& config) {
  TC_ASSIGN_OR_RETURN(config.context_length,
                      keys.RequireInt("context_length", 1, kMaxContext));
  TC_ASSIGN_OR_RETURN(config.num_layers,
                      keys.RequireInt("block_count", 1, kMaxLayers));
  TC_ASSIGN_OR_RETURN(config.width,
                      keys.RequireInt("embedding_length", 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(
      config.ffn_width,
      keys.SameForAllLayers("feed_forward_length", config.num_layers, 1,
                            kMaxWidth, std::nullopt));
  return {};
}

Status ReadHeads(const KeyReader& keys, Config& config) {
  TC_ASSIGN_OR_RETURN(
      config.num_heads,
      keys.SameForAllLayers("attention.head_count", config.num_layers, 1,
                            kMaxWidth, std::nullopt));
  TC_ASSIGN_OR_RETURN(
      config.num_kv_heads,
      keys.SameForAllLayers("attention.head_count_kv", config.num_layers, 1,
                            kMaxWidth, config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return keys.Wrong(
        "attention.head_count_kv", config.num_kv_heads,
        fmt::format("it must divide the {} heads", config.num_heads));
  }
  // Without its own key a head's width is its share of the model's.
  const int64_t share = config.width / config.num_heads;
  const bool divides = config.width % config.num_heads == 0;
  for (const auto& [suffix, width] :
       {std::pair("attention.key_length", &Config::key_width),
        std::pair("attention.value_length", &Config::value_width)}) {
    TC_ASSIGN_OR_RETURN(config.*width,
                        keys.IntOr(suffix, 1, kMaxWidth, divides ? share : 0));
    if (config.*width == 0) {
      return keys.Wrong(
          "attention.head_count", config.num_heads,
          fmt::format("it must divide the width {}", config.width));
    }
    // No overflow: both are at most kMaxWidth.
    if (config.num_heads * (config.*width) > kMaxWidth) {
      return keys.Wrong(
          suffix, config.*width,
          fmt::format("{} such heads are too wide", config.num_heads));
    }
  }
  return {};
}

Status ReadNorm(const KeyReader& keys, const Architecture& architecture,
                Config& config) {
  config.norm = architecture.norm;
  // PowerInfer runs OPT without one, whatever the file says.
  if (architecture.learned_positions && IsPowerInfer(keys.file())) {
    config.norm_epsilon = 0.0f;
    return {};
  }
  const char* suffix = config.norm == NormKind::kRms
                           ? "attention.layer_norm_rms_epsilon"
                           : "attention.layer_norm_epsilon";
  Result<double> epsilon =
      architecture.default_epsilon
          ? keys.FloatOr(suffix, 0.0, 1.0, *architecture.default_epsilon)
          : keys.RequireFloat(suffix, 0.0, 1.0);
  if (!epsilon) return tl::unexpected(std::move(epsilon.error()));
  config.norm_epsilon = static_cast<float>(*epsilon);
  return {};
}

// Position p is row p + offset of the table. OPT's own tables begin with two
// rows that no position uses; PowerInfer keeps them, KAIROX drops them.
Status ReadPositions(const KeyReader& keys, Config& config) {
  constexpr std::string_view kTable = "position_embd.weight";
  const gguf::File& file = keys.file();
  const gguf::TensorInfo* table = file.FindTensor(kTable);
  if (table == nullptr) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor \"{}\" is missing",
                file.path(), kTable);
  }
  constexpr int64_t kUnusedRows = 2;
  const auto num_rows = static_cast<int64_t>(table->shape.num_rows());
  const bool has_unused_rows =
      IsPowerInfer(file) || num_rows == config.context_length + kUnusedRows;
  config.position_offset = has_unused_rows ? kUnusedRows : 0;
  config.num_positions = num_rows - config.position_offset;
  if (config.num_positions >= config.context_length) return {};
  return keys.Wrong("context_length", config.context_length,
                    fmt::format("tensor \"{}\" has {} rows", kTable, num_rows));
}

Result<RopeScaling> ReadScalingKind(const KeyReader& keys) {
  const std::string key = keys.FullKey("rope.scaling.type");
  TC_ASSIGN_OR_RETURN(const auto type, keys.file().String(key));
  if (!type) return RopeScaling::kLinear;
  for (const RopeScaling scaling :
       {RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kYarn}) {
    if (*type == NameOf(scaling)) return scaling;
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: key \"{}\" is {}; none, linear and yarn run in this version",
              keys.file().path(), key, Quote(*type));
}

Status ReadRopeScaling(const KeyReader& keys, Config& config) {
  RopeConfig& rope = config.rope;
  TC_ASSIGN_OR_RETURN(rope.scaling, ReadScalingKind(keys));
  // The older key counts where the newer one is absent; 0 is "unscaled".
  TC_ASSIGN_OR_RETURN(const double legacy,
                      keys.FloatOr("rope.scale_linear", 0, kMaxRopeFactor, 0));
  TC_ASSIGN_OR_RETURN(
      const double factor,
      keys.FloatOr("rope.scaling.factor", 0, kMaxRopeFactor, legacy));
  if (factor != 0.0 && factor < 1e-3) {
    return keys.Wrong("rope.scaling.factor", factor, "too small");
  }
  if (rope.scaling != RopeScaling::kNone && factor != 0.0) {
    rope.factor = static_cast<float>(factor);
  }
  if (rope.scaling == RopeScaling::kLinear && rope.factor == 1.0f) {
    rope.scaling = RopeScaling::kNone;
  }
  TC_ASSIGN_OR_RETURN(rope.original_context,
                      keys.IntOr("rope.scaling.original_context_length", 1,
                                 kMaxContext, config.context_length));
  TC_ASSIGN_OR_RETURN(const double attention_factor,
                      keys.FloatOr("rope.scaling.attn_factor", 1e-3, 1e3, 1.0));
  rope.attention_factor = static_cast<float>(attention_factor);
  return {};
}

Status ReadRope(const KeyReader& keys, RopeKind kind, Config& config) {
  RopeConfig& rope = config.rope;
  rope.kind = kind;
  if (kind == RopeKind::kNone) return {};
  TC_ASSIGN_OR_RETURN(
      const int64_t width,
      keys.IntOr("rope.dimension_count", 1, kMaxWidth, config.key_width));
  if (width % 2 != 0 || width > config.key_width) {
    return keys.Wrong("rope.dimension_count", width,
                      fmt::format("it must be even and at most the head width "
                                  "{}",
                                  config.key_width));
  }
  rope.width = static_cast<int>(width);
  TC_ASSIGN_OR_RETURN(const double base,
                      keys.FloatOr("rope.freq_base", 0, kMaxFloat, 10000.0));
  rope.freq_base = static_cast<float>(base);
  if (!(rope.freq_base > 1.0f)) {
    return keys.Wrong("rope.freq_base", base, "it must be greater than 1");
  }
  return ReadRopeScaling(keys, config);
}

Status TakeActivationKeys(const gguf::File& file, FfnConfig& ffn) {
  TC_ASSIGN_OR_RETURN(const auto name, file.String(prepared::kActivation));
  if (name) {
    const auto activation = ParseActivation(*name);
    if (!activation) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: key \"{}\" is {}; {} are known", file.path(),
                  prepared::kActivation, Quote(*name), ListActivations());
    }
    ffn.activation = *activation;
  }
  const KeyReader own(file, "thermocline");
  TC_ASSIGN_OR_RETURN(
      const double threshold,
      own.FloatOr("ffn.threshold", 0, kMaxFloat, double{ffn.threshold}));
  ffn.threshold = static_cast<float>(threshold);
  return {};
}

// The activation is the architecture's, the file's key, or the user's wish, the
// later winning.
Status ReadActivation(const gguf::File& file, const Architecture& architecture,
                      FfnConfig& ffn) {
  ffn.activation = IsPowerInfer(file) ? architecture.powerinfer_activation
                                      : architecture.activation;
  ffn.threshold = architecture.threshold;
  return TakeActivationKeys(file, ffn);
}

Status CheckGate(const gguf::File& file, const FfnConfig& ffn) {
  if (!InfoOf(ffn.activation).needs_gate || ffn.gated) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: the activation {} needs a gate, which this model's FFN "
              "lacks",
              file.path(), NameOf(ffn.activation));
}

Status OverrideActivation(const gguf::File& file,
                          const ConfigOverrides& overrides, FfnConfig& ffn) {
  ffn.activation = overrides.ffn_activation.value_or(ffn.activation);
  TC_RETURN_IF_ERROR(CheckGate(file, ffn));
  if (!overrides.ffn_threshold) return {};
  ffn.threshold = *overrides.ffn_threshold;
  if (!(ffn.threshold >= 0.0f && ffn.threshold <= kMaxFloat)) {
    return Fail(ErrorCode::kInvalidArgument,
                "the FFN threshold is {}; it must be a finite number >= 0",
                ffn.threshold);
  }
  if (ffn.activation != Activation::kFatRelu) {
    return Fail(ErrorCode::kInvalidArgument,
                "an FFN threshold is given, but the activation is {}; only "
                "fatrelu has one",
                NameOf(ffn.activation));
  }
  return {};
}

// Mixtral's form of experts: softmax over all, the best few, renormalised.
// Other forms are refused (refused_keys.h).
Status ReadExperts(const KeyReader& keys, const Architecture& architecture,
                   FfnConfig& ffn) {
  TC_ASSIGN_OR_RETURN(ffn.num_experts,
                      keys.IntOr("expert_count", 0, kMaxExperts, 0));
  TC_ASSIGN_OR_RETURN(ffn.num_experts_used,
                      keys.IntOr("expert_used_count", 0, kMaxExperts, 0));
  if (ffn.num_experts > 0 && !architecture.can_have_experts) {
    return Fail(ErrorCode::kUnsupported,
                "{}: key \"{}\" is {}: experts do not run with the "
                "architecture \"{}\" in this version",
                keys.file().path(), keys.FullKey("expert_count"),
                ffn.num_experts, architecture.name);
  }
  if (ffn.num_experts_used > ffn.num_experts ||
      (ffn.num_experts > 0 && ffn.num_experts_used == 0)) {
    return keys.Wrong("expert_used_count", ffn.num_experts_used,
                      fmt::format("there are {} experts", ffn.num_experts));
  }
  return {};
}

// The file's predictors, told by the tensors of any layer: KAIROX's may have
// none in some. kPowerInfer has them in all, so the first is enough.
Status ReadPredictor(const KeyReader& keys, const Config& config,
                     PredictorConfig& predictor) {
  const gguf::File& file = keys.file();
  if (IsPowerInfer(file)) {
    predictor.kind = PredictorKind::kPowerInfer;
    const KeyReader own(file, "powerinfer");
    TC_ASSIGN_OR_RETURN(const double threshold,
                        own.FloatOr("sparse_threshold", -kMaxFloat, kMaxFloat,
                                    predictor.threshold));
    predictor.threshold = static_cast<float>(threshold);
  }
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (file.FindTensor(fmt::format("blk.{}.ffn_pred_up.weight", i))) {
      predictor.kind = PredictorKind::kKairox;
      predictor.lookahead = 1;
    }
  }
  if (predictor.kind != PredictorKind::kNone && config.ffn.num_experts > 0) {
    return Fail(ErrorCode::kUnsupported,
                "{}: predictors together with experts do not run in this "
                "version",
                file.path());
  }
  return {};
}

Status OverridePredictor(const gguf::File& file,
                         const ConfigOverrides& overrides,
                         PredictorConfig& predictor) {
  if (!overrides.predictor_threshold) return {};
  predictor.threshold = *overrides.predictor_threshold;
  if (predictor.kind != PredictorKind::kNone) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: a threshold for predictors is given, but the file has none",
              file.path());
}

}  // namespace

int64_t NeuronsPerLayer(const Config& config) {
  return config.ffn_width * std::max(int64_t{1}, config.ffn.num_experts);
}

std::string_view NameOf(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kYarn:
      return "yarn";
  }
  return "";
}

Status ReadActivationKeys(const gguf::File& file, FfnConfig& ffn) {
  TC_RETURN_IF_ERROR(TakeActivationKeys(file, ffn));
  return CheckGate(file, ffn);
}

Result<Config> ReadConfig(const gguf::File& file,
                          const ConfigOverrides& overrides) {
  TC_ASSIGN_OR_RETURN(const Architecture* architecture, ReadArchitecture(file));
  Config config;
  config.architecture = architecture->name;
  config.qkv_bias = architecture->qkv_bias;
  config.other_biases = architecture->other_biases;
  config.parallel_block = architecture->parallel_block;
  config.ffn.gated = architecture->gated;
  TC_ASSIGN_OR_RETURN(auto name, file.String("general.name"));
  config.name = std::move(name).value_or("");

  const KeyReader keys(file, config.architecture);
  TC_RETURN_IF_ERROR(ReadExtents(keys, config));
  TC_RETURN_IF_ERROR(ReadHeads(keys, config));
  TC_RETURN_IF_ERROR(ReadNorm(keys, *architecture, config));
  TC_RETURN_IF_ERROR(ReadRope(keys, architecture->rope, config));
  if (architecture->learned_positions) {
    TC_RETURN_IF_ERROR(ReadPositions(keys, config));
  }
  TC_RETURN_IF_ERROR(CheckNoRefusedKeys(keys, config));
  TC_RETURN_IF_ERROR(ReadExperts(keys, *architecture, config.ffn));
  TC_RETURN_IF_ERROR(ReadActivation(file, *architecture, config.ffn));
  TC_RETURN_IF_ERROR(OverrideActivation(file, overrides, config.ffn));
  TC_RETURN_IF_ERROR(ReadPredictor(keys, config, config.predictor));
  TC_RETURN_IF_ERROR(ReadPrepared(file, config));
  TC_RETURN_IF_ERROR(OverridePredictor(file, overrides, config.predictor));
  TC_RETURN_IF_ERROR(ReadVocabSize(keys, config));
  return config;
}

}  // namespace thermocline::model
