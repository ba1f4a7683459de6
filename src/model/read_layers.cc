#include "model/read_layers.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quote.h"

namespace thermocline::model {
namespace {

constexpr int64_t kMostPositions = std::numeric_limits<int32_t>::max();
constexpr double kMaxRopeFactor = 1e6;
constexpr double kMostFloat = std::numeric_limits<float>::max();

constexpr std::string_view kHeads = "attention.head_count";
constexpr std::string_view kKvHeads = "attention.head_count_kv";

// Without its own key a head's width is its share of the model's.
Status ReadHeadWidths(const KeyReader& keys, size_t width, size_t layer_idx,
                      AttentionSpec& attention) {
  const size_t num_heads = attention.num_heads;
  const size_t share = width / num_heads;
  const bool divides = width % num_heads == 0;
  for (const auto& [suffix, slot] :
       {std::pair("attention.key_length", &AttentionSpec::key_width),
        std::pair("attention.value_length", &AttentionSpec::value_width)}) {
    size_t& head_width = attention.*slot;
    TC_ASSIGN_OR_RETURN(
        head_width, keys.ExtentOr(suffix, 1, kMaxWidth, divides ? share : 0));
    if (head_width == 0) {
      return keys.Wrong(kHeads, num_heads,
                        fmt::format("it must divide the width {} (layer {})",
                                    width, layer_idx));
    }
    // No overflow: both are at most kMaxWidth.
    if (num_heads * head_width > kMaxWidth) {
      return keys.Wrong(suffix, head_width,
                        fmt::format("{} such heads, of layer {}, are too wide",
                                    num_heads, layer_idx));
    }
  }
  return {};
}

Status ReadHeads(const KeyReader& keys, Config& config) {
  TC_ASSIGN_OR_RETURN(
      const auto heads,
      keys.PerLayer(kHeads, config.num_layers, 1, kMaxWidth, std::nullopt));
  constexpr size_t kAbsent = 0;  // as many as there are heads
  TC_ASSIGN_OR_RETURN(
      const auto kv_heads,
      keys.PerLayer(kKvHeads, config.num_layers, 1, kMaxWidth, kAbsent));
  for (size_t i = 0; i < heads.size(); ++i) {
    AttentionSpec& attention = config.layers[i].attention;
    attention.num_heads = heads[i];
    attention.num_kv_heads = kv_heads[i] == kAbsent ? heads[i] : kv_heads[i];
    if (attention.num_heads % attention.num_kv_heads != 0) {
      return keys.Wrong(kKvHeads, attention.num_kv_heads,
                        fmt::format("it must divide the {} heads of layer {}",
                                    attention.num_heads, i));
    }
    TC_RETURN_IF_ERROR(ReadHeadWidths(keys, config.width, i, attention));
  }
  return {};
}

std::string_view FfnWidthKey(const Architecture& architecture) {
  return architecture.mixture == Mixture::kAlways ? "expert_feed_forward_length"
                                                  : "feed_forward_length";
}

Status ReadFfnWidths(const KeyReader& keys, const Architecture& architecture,
                     Config& config) {
  TC_ASSIGN_OR_RETURN(
      const auto widths,
      keys.PerLayer(FfnWidthKey(architecture), config.num_layers, 1, kMaxWidth,
                    std::nullopt));
  for (size_t i = 0; i < widths.size(); ++i) {
    config.layers[i].ffn.width = widths[i];
  }
  return {};
}

// Told by the tensors: no key says it.
void FindTransposedDowns(const gguf::File& file, Config& config) {
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    config.layers[i].ffn.down_is_transposed =
        file.FindTensor(block + "ffn_down_t.weight") != nullptr &&
        file.FindTensor(block + "ffn_down.weight") == nullptr;
  }
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

Status ReadRopeScaling(const KeyReader& keys, int64_t context_length,
                       RopeConfig& rope) {
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
                                 kMostPositions, context_length));
  TC_ASSIGN_OR_RETURN(const double attention_factor,
                      keys.FloatOr("rope.scaling.attn_factor", 1e-3, 1e3, 1.0));
  rope.attention_factor = static_cast<float>(attention_factor);
  return {};
}

// What a layer's heads rotate, whose width is theirs without a key.
Result<size_t> ReadRopeWidth(const KeyReader& keys, size_t key_width,
                             size_t layer_idx) {
  TC_ASSIGN_OR_RETURN(
      const size_t width,
      keys.ExtentOr("rope.dimension_count", 1, kMaxWidth, key_width));
  if (width % 2 != 0 || width > key_width) {
    return keys.Wrong("rope.dimension_count", width,
                      fmt::format("it must be even and at most the head width "
                                  "{} (layer {})",
                                  key_width, layer_idx));
  }
  return width;
}

// As many as there are widths.
Status ReadRopes(const KeyReader& keys, RopeKind kind, Config& config) {
  if (kind == RopeKind::kNone) return {};
  RopeConfig rope = {.kind = kind};
  TC_ASSIGN_OR_RETURN(const double base,
                      keys.FloatOr("rope.freq_base", 0, kMostFloat, 10000.0));
  rope.freq_base = static_cast<float>(base);
  if (!(rope.freq_base > 1.0f)) {
    return keys.Wrong("rope.freq_base", base, "it must be greater than 1");
  }
  TC_RETURN_IF_ERROR(ReadRopeScaling(keys, config.context_length, rope));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    AttentionSpec& attention = config.layers[i].attention;
    TC_ASSIGN_OR_RETURN(rope.width,
                        ReadRopeWidth(keys, attention.key_width, i));
    const auto same =
        std::ranges::find(config.ropes, rope.width, &RopeConfig::width);
    attention.rope = static_cast<int>(same - config.ropes.begin());
    if (same == config.ropes.end()) config.ropes.push_back(rope);
  }
  return {};
}

// Mixtral's form of experts: softmax over all, the best few, renormalised.
// Other forms are refused (refused_keys.h).
Status ReadExperts(const KeyReader& keys, const Architecture& architecture,
                   FfnSpec& ffn) {
  TC_ASSIGN_OR_RETURN(ffn.num_experts,
                      keys.ExtentOr("expert_count", 0, kMaxExperts, 0));
  TC_ASSIGN_OR_RETURN(ffn.num_experts_used,
                      keys.ExtentOr("expert_used_count", 0, kMaxExperts, 0));
  if (ffn.num_experts > 0 && architecture.mixture == Mixture::kNever) {
    return Fail(ErrorCode::kUnsupported,
                "{}: key \"{}\" is {}: experts do not run with the "
                "architecture \"{}\" in this version",
                keys.file().path(), keys.FullKey("expert_count"),
                ffn.num_experts, architecture.name);
  }
  if (ffn.num_experts == 0 && architecture.mixture == Mixture::kAlways) {
    return keys.Wrong(
        "expert_count", 0,
        fmt::format("the architecture \"{}\" has experts", architecture.name));
  }
  if (ffn.num_experts_used > ffn.num_experts ||
      (ffn.num_experts > 0 && ffn.num_experts_used == 0)) {
    return keys.Wrong("expert_used_count", ffn.num_experts_used,
                      fmt::format("there are {} experts", ffn.num_experts));
  }
  return {};
}

}  // namespace

Status ReadLayers(const KeyReader& keys, const Architecture& architecture,
                  Config& config) {
  LayerSpec layer;
  layer.attention.qk_norm = architecture.qk_norm;
  layer.ffn.gated = architecture.gated;
  layer.parallel = architecture.parallel_block;
  TC_RETURN_IF_ERROR(ReadExperts(keys, architecture, layer.ffn));
  config.layers.assign(config.num_layers, layer);
  TC_RETURN_IF_ERROR(ReadFfnWidths(keys, architecture, config));
  FindTransposedDowns(keys.file(), config);
  TC_RETURN_IF_ERROR(ReadHeads(keys, config));
  return ReadRopes(keys, architecture.rope, config);
}

}  // namespace thermocline::model
