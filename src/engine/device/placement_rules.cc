#include "engine/device/placement_rules.h"

#include <charconv>
#include <regex>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "base/remedy.h"
#include "model/tensor_roles.h"

namespace thermocline::engine {
namespace {

using model::TensorUse;

struct CompiledRule {
  std::regex pattern;
  bool on_device;
  bool has_matched = false;
  bool names_part = false;  // of those that may move
};

tl::unexpected<Error> NoPattern(const TensorRule& rule,
                                const std::regex_error& error) {
  return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kTensorRules},
              "{} is no regular expression that tensors can be named by: {}",
              Quote(rule.pattern), error.what());
}

Result<std::vector<CompiledRule>> Compile(
    const std::vector<TensorRule>& rules) {
  std::vector<CompiledRule> compiled;
  for (const TensorRule& rule : rules) {
    try {
      compiled.push_back({std::regex(rule.pattern), rule.on_device});
    } catch (const std::regex_error& error) {
      return NoPattern(rule, error);
    }
  }
  return compiled;
}

// N and "NAME" of "blk.N.NAME"; none of another one.
std::optional<std::pair<size_t, std::string_view>> SplitLayer(
    std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  size_t layer_idx = 0;
  const char* end_of_name = name.data() + name.size();
  const auto [end, error] =
      std::from_chars(name.data(), end_of_name, layer_idx);
  if (error != std::errc() || end == end_of_name || *end != '.') {
    return std::nullopt;
  }
  return std::pair(layer_idx,
                   name.substr(static_cast<size_t>(end + 1 - name.data())));
}

// The part of a layer that a tensor belongs to; null: to none.
Demand* PartOf(LayerDemands& layer, std::string_view name) {
  const model::TensorRole* role = model::FindRole(name);
  switch (role != nullptr ? role->use : TensorUse::kOther) {
    case TensorUse::kAttentionQ:
    case TensorUse::kAttentionK:
    case TensorUse::kAttentionV:
    case TensorUse::kAttentionQkv:
    case TensorUse::kAttentionOut:
    case TensorUse::kAttentionOther:
      return &layer.attention;
    case TensorUse::kFfnGate:
    case TensorUse::kFfnUp:
    case TensorUse::kFfnDown:
    case TensorUse::kFfnDownT:
    case TensorUse::kFfnRecords:
    case TensorUse::kExpertGate:
    case TensorUse::kExpertUp:
    case TensorUse::kExpertDown:
      return &layer.ffn;
    case TensorUse::kPredictorUp:
    case TensorUse::kPredictorDown:
      return &layer.predictor;
    default:
      break;
  }
  // Files from before April 2024 have tensors of single experts.
  for (const std::string_view stem : {"ffn_gate.", "ffn_up.", "ffn_down."}) {
    if (role == nullptr && name.starts_with(stem)) return &layer.ffn;
  }
  return nullptr;
}

Demand* PartOf(Demands& demands, bool is_tied, std::string_view name) {
  if (name == (is_tied ? "token_embd.weight" : "output.weight")) {
    return &demands.head;
  }
  const auto layer = SplitLayer(name);
  if (!layer || layer->first >= demands.layers.size()) return nullptr;
  return PartOf(demands.layers[layer->first], layer->second);
}

// What the first rule that matches says; the others that match are told that
// they do.
Result<Demand> AskRules(const std::vector<TensorRule>& rules,
                        std::vector<CompiledRule>& compiled,
                        const std::string& name, bool is_part) {
  Demand demand = Demand::kNone;
  for (size_t i = 0; i < rules.size(); ++i) {
    try {
      if (!std::regex_search(name, compiled[i].pattern)) continue;
    } catch (const std::regex_error& error) {
      return NoPattern(rules[i], error);
    }
    compiled[i].has_matched = true;
    if (is_part) compiled[i].names_part = true;
    if (demand != Demand::kNone) continue;
    demand = rules[i].on_device ? Demand::kDevice : Demand::kHost;
  }
  return demand;
}

}  // namespace

Result<Demands> DemandsOfTensors(const model::Model& model,
                                 const PlacementRules& rules) {
  Demands demands;
  demands.layers.resize(model.config().num_layers);
  TC_ASSIGN_OR_RETURN(auto compiled, Compile(rules.tensors));
  for (const gguf::TensorInfo& tensor : model.file().tensors()) {
    Demand* part = PartOf(demands, model.weights().tied, tensor.name);
    TC_ASSIGN_OR_RETURN(
        const Demand demand,
        AskRules(rules.tensors, compiled, tensor.name, part != nullptr));
    if (demand == Demand::kNone || part == nullptr) continue;
    if (*part != Demand::kHost) *part = demand;
  }
  for (size_t i = 0; i < compiled.size(); ++i) {
    const TensorRule& rule = rules.tensors[i];
    if (compiled[i].has_matched) {
      const bool is_in_vain = rule.on_device && !compiled[i].names_part;
      if (is_in_vain) demands.in_vain.push_back(rule.pattern);
      continue;
    }
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kTensorRules},
                "{}: none of its tensors matches {}", model.file().path(),
                Quote(rule.pattern));
  }
  return demands;
}

Demands Complete(const model::Config& config, const PlacementRules& rules,
                 Demands of_tensors) {
  const size_t num_layers = config.num_layers;
  const auto complete = [](Demand& demand, bool on_host,
                           std::optional<bool> on_device) {
    if (demand != Demand::kNone) return;
    if (on_host) {
      demand = Demand::kHost;
    } else if (on_device) {
      demand = *on_device ? Demand::kDevice : Demand::kHost;
    }
  };
  const auto is_named = [&](size_t layer_idx) -> std::optional<bool> {
    if (!rules.num_layers) return std::nullopt;
    return num_layers - layer_idx <= *rules.num_layers;
  };
  for (size_t i = 0; i < num_layers; ++i) {
    LayerDemands& layer = of_tensors.layers[i];
    const bool has_host_experts =
        config.layers[i].ffn.num_experts > 0 && i < rules.num_host_experts;
    complete(layer.attention, false, is_named(i));
    complete(layer.predictor, false, is_named(i));
    complete(layer.ffn, has_host_experts, is_named(i));
  }
  if (rules.num_layers) {
    complete(of_tensors.head, false, *rules.num_layers > num_layers);
  }
  return of_tensors;
}

}  // namespace thermocline::engine
