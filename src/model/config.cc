#include "model/config.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/math.h"
#include "base/quote.h"
#include "base/remedy.h"
#include "model/architectures.h"
#include "model/key_reader.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "model/read_layers.h"
#include "model/refused_keys.h"
#include "model/split_file.h"

namespace thermocline::model {
namespace {

constexpr int64_t kMaxContext = std::numeric_limits<int32_t>::max();
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
    return Fail(ErrorCode::kUnsupported, Advice{Remedy::kSplitFile},
                "{}: a split file, which lies beside a model and is none",
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
  config.vocab_size = num_rows;
  TC_ASSIGN_OR_RETURN(
      const size_t by_key,
      keys.ExtentOr("vocab_size", 0, kMaxContext, config.vocab_size));
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
                      keys.RequireExtent("block_count", 1, kMaxLayers));
  TC_ASSIGN_OR_RETURN(config.width,
                      keys.RequireExtent("embedding_length", 1, kMaxWidth));
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

Status TakeActivationKeys(const gguf::File& file, FfnSpec& ffn) {
  TC_ASSIGN_OR_RETURN(const auto name, file.String(prepared::kActivation));
  if (name) {
    const auto activation = ParseActivation(*name);
    if (!activation) {
      return Fail(ErrorCode::kUnsupported, "{}: key \"{}\" is {}; {} are known",
                  file.path(), prepared::kActivation, Quote(*name),
                  ListActivations());
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
                      FfnSpec& ffn) {
  ffn.activation = IsPowerInfer(file) ? architecture.powerinfer_activation
                                      : architecture.activation;
  ffn.threshold = architecture.threshold;
  return TakeActivationKeys(file, ffn);
}

Status CheckGate(const gguf::File& file, const FfnSpec& ffn) {
  if (!InfoOf(ffn.activation).needs_gate || ffn.gated) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: the activation {} needs a gate, which this model's FFN "
              "lacks",
              file.path(), NameOf(ffn.activation));
}

Status OverrideActivation(const gguf::File& file,
                          const ConfigOverrides& overrides, FfnSpec& ffn) {
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

// What layers have in common.
void UseActivation(const FfnSpec& ffn, Config& config) {
  for (LayerSpec& layer : config.layers) {
    layer.ffn.activation = ffn.activation;
    layer.ffn.threshold = ffn.threshold;
  }
}

Status ReadActivations(const gguf::File& file, const Architecture& architecture,
                       const ConfigOverrides& overrides, Config& config) {
  FfnSpec ffn = CommonFfn(config);
  TC_RETURN_IF_ERROR(ReadActivation(file, architecture, ffn));
  TC_RETURN_IF_ERROR(OverrideActivation(file, overrides, ffn));
  UseActivation(ffn, config);
  return {};
}

// The file's predictors, told by the tensors of any layer: KAIROX's may have
// none in some. kPowerInfer has them in all, so the first is enough.
Status ReadPredictor(const KeyReader& keys, const Config& config,
                     PredictorConfig& predictor) {
  const gguf::File& file = keys.file();
  if (IsPowerInfer(file)) {
    predictor = {.kind = PredictorKind::kPowerInfer,
                 .input = PredictorInput::kStream,
                 .is_mask = true};
    const KeyReader own(file, "powerinfer");
    TC_ASSIGN_OR_RETURN(const double threshold,
                        own.FloatOr("sparse_threshold", -kMaxFloat, kMaxFloat,
                                    predictor.threshold));
    predictor.threshold = static_cast<float>(threshold);
  }
  for (size_t i = 0; i < config.num_layers; ++i) {
    if (file.FindTensor(fmt::format("blk.{}.ffn_pred_up.weight", i))) {
      // The adjacent predictor of KAIROX.
      predictor.kind = PredictorKind::kKairox;
      predictor.input = PredictorInput::kNormed;
      predictor.lookahead = 1;
      predictor.is_mask = true;
    }
  }
  if (predictor.is_there() && CommonFfn(config).num_experts > 0) {
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
  if (predictor.is_there()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: a threshold for predictors is given, but the file has none",
              file.path());
}

}  // namespace

std::string_view NameOf(PredictorKind kind) {
  switch (kind) {
    case PredictorKind::kNone:
      return "no";
    case PredictorKind::kPowerInfer:
      return "PowerInfer";
    case PredictorKind::kKairox:
      return "KAIROX";
    case PredictorKind::kThermocline:
      return "trained";
  }
  return "";
}

const FfnSpec& CommonFfn(const Config& config) {
  return config.layers.front().ffn;
}

size_t MaxFfnWidth(const Config& config) {
  size_t most = 0;
  for (const LayerSpec& layer : config.layers) {
    most = std::max(most, layer.ffn.width);
  }
  return most;
}

Status CheckEqualWidths(const Config& config, std::string_view what) {
  const size_t first = config.layers.front().ffn.width;
  for (size_t i = 1; i < config.layers.size(); ++i) {
    const size_t width = config.layers[i].ffn.width;
    if (width == first) continue;
    return Fail(ErrorCode::kUnsupported,
                "{} has one number of neurons for all layers, and this model's "
                "layer 0 has {}, layer {} {}",
                what, first, i, width);
  }
  return {};
}

size_t NeuronsPerLayer(const Config& config) {
  return NumNeurons(config.layers.front().ffn);
}

Status ReadActivationKeys(const gguf::File& file, Config& config) {
  FfnSpec ffn = CommonFfn(config);
  TC_RETURN_IF_ERROR(TakeActivationKeys(file, ffn));
  TC_RETURN_IF_ERROR(CheckGate(file, ffn));
  UseActivation(ffn, config);
  return {};
}

Result<Config> ReadConfig(const gguf::File& file,
                          const ConfigOverrides& overrides) {
  TC_ASSIGN_OR_RETURN(const Architecture* architecture, ReadArchitecture(file));
  Config config;
  config.architecture = architecture->name;
  config.qkv_bias = architecture->qkv_bias;
  config.other_biases = architecture->other_biases;
  TC_ASSIGN_OR_RETURN(auto name, file.String("general.name"));
  config.name = std::move(name).value_or("");

  const KeyReader keys(file, config.architecture);
  TC_RETURN_IF_ERROR(ReadExtents(keys, config));
  TC_RETURN_IF_ERROR(ReadLayers(keys, *architecture, config));
  TC_RETURN_IF_ERROR(ReadNorm(keys, *architecture, config));
  if (architecture->learned_positions) {
    TC_RETURN_IF_ERROR(ReadPositions(keys, config));
  }
  TC_RETURN_IF_ERROR(CheckNoRefusedKeys(keys, config));
  TC_RETURN_IF_ERROR(ReadActivations(file, *architecture, overrides, config));
  TC_RETURN_IF_ERROR(ReadPredictor(keys, config, config.predictor));
  TC_RETURN_IF_ERROR(ReadPrepared(file, config));
  TC_RETURN_IF_ERROR(OverridePredictor(file, overrides, config.predictor));
  TC_RETURN_IF_ERROR(ReadVocabSize(keys, config));
  return config;
}

}  // namespace thermocline::model
