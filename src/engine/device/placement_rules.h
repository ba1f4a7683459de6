// What a user says of where the parts of a model lie.
#ifndef THERMOCLINE_ENGINE_DEVICE_PLACEMENT_RULES_H_
#define THERMOCLINE_ENGINE_DEVICE_PLACEMENT_RULES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model.h"

namespace thermocline::engine {

// Of the tensors whose names, as the file has them, hold a match.
struct TensorRule {
  std::string pattern;  // a regular expression (ECMAScript's)
  bool on_device = false;
};

// Parts are what lies together: a layer's attention, its FFN or experts, its
// predictor, the head. Norms, embeddings and routers are the host's always.
struct PlacementRules {
  // The first that a tensor matches counts. A part is on the device if one of
  // its tensors is to be and none is to be on the host.
  std::vector<TensorRule> tensors;
  // Of the first so many layers: on the host, unless `tensors` names them.
  size_t num_host_experts = 0;
  // All of the last so many layers, and with more than there are the head; what
  // nobody names stays on the host. Absent: what nobody names goes where it is
  // worth most.
  std::optional<size_t> num_layers;
};

enum class Demand : uint8_t {
  kNone,    // on the device if it is worth it
  kHost,    // never on the device
  kDevice,  // there, or nothing is loaded
};

struct LayerDemands {
  Demand attention = Demand::kNone;
  Demand predictor = Demand::kNone;
  Demand ffn = Demand::kNone;  // in any form, experts too
};

struct Demands {
  std::vector<LayerDemands> layers;  // [L]
  Demand head = Demand::kNone;
  // Patterns for the device that name none of these: norms, embeddings.
  std::vector<std::string> in_vain;
};

// What the rules of tensors say. kInvalidArgument: a pattern that is no regular
// expression, or that no tensor of the file matches, named.
Result<Demands> DemandsOfTensors(const model::Model& model,
                                 const PlacementRules& rules);

// The same with what the other rules say of what tensors leave open.
Demands Complete(const model::Config& config, const PlacementRules& rules,
                 Demands of_tensors);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_PLACEMENT_RULES_H_
