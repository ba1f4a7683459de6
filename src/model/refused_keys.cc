#include "model/refused_keys.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "base/log.h"

namespace thermocline::model {
namespace {

constexpr double kAny = std::numeric_limits<double>::max();

// A float key and the values with which it does nothing.
struct Factor {
  std::string_view suffix;
  double off;  // as good as absent
  double also_off;
};
constexpr Factor kFactors[] = {
    {"attn_logit_softcapping", 0.0, 0.0},
    {"final_logit_softcapping", 0.0, 0.0},
    {"attention.clamp_kqv", 0.0, 0.0},
    {"attention.max_alibi_bias", 0.0, 0.0},
    {"embedding_scale", 0.0, 1.0},
    {"residual_scale", 0.0, 1.0},
    {"logit_scale", 0.0, 1.0},
    {"expert_weights_scale", 0.0, 1.0},
    {"rope.scaling.yarn_log_multiplier", 0.0, 0.0},
    {"rope.scaling.yarn_ext_factor", -1.0, 1.0},
    {"rope.scaling.yarn_attn_factor", -1.0, 1.0},
    {"rope.scaling.yarn_beta_fast", -1.0, 32.0},
    {"rope.scaling.yarn_beta_slow", -1.0, 1.0},
};

template <typename V>
tl::unexpected<Error> Refuse(const KeyReader& keys, std::string_view suffix,
                             const V& value, std::string_view what) {
  return Fail(ErrorCode::kUnsupported,
              "{}: key \"{}\" is {}: {} not in this "
              "version",
              keys.file().path(), keys.FullKey(suffix), value, what);
}

Status CheckFactors(const KeyReader& keys) {
  for (const Factor& factor : kFactors) {
    TC_ASSIGN_OR_RETURN(const double value,
                        keys.FloatOr(factor.suffix, -kAny, kAny, factor.off));
    if (value != factor.off && value != factor.also_off) {
      return Refuse(keys, factor.suffix, value, "what it asks for is");
    }
  }
  return {};
}

Status CheckAttention(const KeyReader& keys, const Config& config) {
  TC_ASSIGN_OR_RETURN(const int64_t window,
                      keys.IntOr("attention.sliding_window", 0,
                                 std::numeric_limits<int64_t>::max(), 0));
  if (window > 0 && window < config.context_length) {
    // Not refused: the first Mistral models carry it, and llama.cpp runs them
    // with full attention. Up to `window` positions that is the same.
    LogWarning(
        "{}: trained with a sliding window of {} positions; past them this "
        "version still attends to all, as llama.cpp does",
        keys.file().path(), window);
  }
  TC_ASSIGN_OR_RETURN(const double scale,
                      keys.FloatOr("attention.scale", -kAny, kAny, 0.0));
  for (const LayerSpec& layer : config.layers) {
    const double usual =
        1.0 / std::sqrt(static_cast<double>(layer.attention.key_width));
    // The key holds an F32: the usual scale rounded to it is the usual one.
    if (scale != 0.0 && std::abs(scale - usual) > 1e-6 * usual) {
      return Refuse(keys, "attention.scale", scale, "another scale is");
    }
  }
  const std::string causal = keys.FullKey("attention.causal");
  TC_ASSIGN_OR_RETURN(const auto is_causal, keys.file().Bool(causal));
  if (!is_causal.value_or(true)) {
    return Refuse(keys, "attention.causal", "false",
                  "attention to later tokens is");
  }
  return {};
}

// Experts are as wide as the FFN of their layer is said to be.
Status CheckExpertWidths(const KeyReader& keys, const Config& config) {
  constexpr std::string_view kWidth = "expert_feed_forward_length";
  constexpr size_t kAbsent = 0;
  TC_ASSIGN_OR_RETURN(
      const auto widths,
      keys.PerLayer(kWidth, config.num_layers, 0, kMaxWidth, kAbsent));
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] == kAbsent || widths[i] == config.layers[i].ffn.width) {
      continue;
    }
    return Refuse(keys, kWidth, widths[i], "experts of another width are");
  }
  return {};
}

// Forms of experts other than Mixtral's.
Status CheckExperts(const KeyReader& keys, const Config& config) {
  struct Count {
    std::string_view suffix;
    int64_t usual;  // as good as absent, and so is 0
    std::string_view what;
  };
  const Count counts[] = {
      {"expert_shared_count", 0, "experts that every token uses are"},
      {"expert_shared_feed_forward_length", 0,
       "experts that every token uses are"},
      {"expert_gating_func", 1, "another choice than by softmax is"},
      {"expert_group_count", 1, "groups of experts are"},
      {"leading_dense_block_count", 0, "layers without experts are"},
  };
  for (const auto& [suffix, usual, what] : counts) {
    TC_ASSIGN_OR_RETURN(
        const int64_t value,
        keys.IntOr(suffix, 0, std::numeric_limits<int64_t>::max(), 0));
    if (value != 0 && value != usual) return Refuse(keys, suffix, value, what);
  }
  TC_RETURN_IF_ERROR(CheckExpertWidths(keys, config));
  const std::string norm = keys.FullKey("expert_weights_norm");
  TC_ASSIGN_OR_RETURN(const auto is_normed, keys.file().Bool(norm));
  if (!is_normed.value_or(true)) {
    return Refuse(keys, "expert_weights_norm", "false",
                  "experts whose weights do not sum to 1 are");
  }
  return {};
}

// The architecture settles whether attention and FFN stand side by side.
Status CheckBlockForm(const KeyReader& keys, const Config& config) {
  const std::string key = keys.FullKey("use_parallel_residual");
  TC_ASSIGN_OR_RETURN(const auto is_parallel, keys.file().Bool(key));
  const bool has_parallel = config.layers.front().parallel;
  if (is_parallel.value_or(has_parallel) == has_parallel) return {};
  return Refuse(keys, "use_parallel_residual", *is_parallel,
                *is_parallel ? "attention beside the FFN is"
                             : "this architecture without it is");
}

}  // namespace

Status CheckNoRefusedKeys(const KeyReader& keys, const Config& config) {
  TC_RETURN_IF_ERROR(CheckExperts(keys, config));
  TC_RETURN_IF_ERROR(CheckBlockForm(keys, config));
  TC_RETURN_IF_ERROR(CheckFactors(keys));
  return CheckAttention(keys, config);
}

}  // namespace thermocline::model
