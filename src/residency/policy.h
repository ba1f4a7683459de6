// Who stays in the faster tier: pure decisions over neurons' numbers, the same
// object in the engine and on traces. Knows no memory and no clock.
//
// Each policy's paper stands where it is made (makers.h).
#ifndef THERMOCLINE_RESIDENCY_POLICY_H_
#define THERMOCLINE_RESIDENCY_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "neuron/neuron_set.h"

namespace thermocline::residency {

// A unit is whatever moves as one: a neuron of a layer, an expert, or a group
// of neurons (KAIROX 5.2), which is used when any of them is.
inline constexpr uint32_t kNobody = UINT32_MAX;

struct LayerExtent {
  uint32_t num_units = 0;  // < kNobody
  uint32_t capacity = 0;   // units that may be resident at once; or more
  // [num_units] how often each is used, by a profile; or none. A prior. Read by
  // MakePolicy alone.
  std::span<const float> frequency;
  // What Observe counts: unit u is members [u G, (u + 1) G), of the last one
  // those that there are. A neuron or an expert is a unit of one member.
  uint32_t members_per_unit = 1;  // G
  uint32_t num_members = 0;       // 0: num_units * G

  uint32_t members() const {
    return num_members > 0 ? num_members : num_units * members_per_unit;
  }
};

// What the layer's last pass waited for (GetSystemBottleneck of KAIROX's
// Algorithm 1): nothing, moves that were not over, or misses.
enum class Bottleneck : uint8_t { kNothing, kMoves, kMisses };

// One for all layers, which know nothing of each other. Between calls at most
// `capacity` units of a layer are resident, and IsResident says which.
// Usage, for each layer: Initial; then of each pass, in order, Observe with
// what was used; then for each used unit that was not resident, once it is in
// memory: Admit; Propose, where there is time for moves. Who leaves is never
// one that the layer's last Observe named, nor one admitted since: what is in
// use needs no other protection than to be observed before. Requires (CHECKed):
// layers and units in range, sets of as many as the layer's. Threads  one
// caller at a time. Determinism: the same calls give the same answers.
class Policy {
 public:
  virtual ~Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  // Those that the policy wants resident before anything was used, the best
  // first: by frequency, equal ones by number; without any the first. Called
  // once and before all else (CHECKed); they are resident from then on. Without
  // this call nobody is at first.
  virtual std::vector<uint32_t> Initial(size_t layer_idx) = 0;

  // The layer has used these members, resident or not.
  // Cost: for each used unit O(1), or O(log n) where scores rank; and a word
  // for 64 members. `momentum` and `macro-micro` also look at all units.
  virtual void Observe(size_t layer_idx, const neuron::NeuronSet& used) = 0;

  // A unit that is not resident (CHECKed) was read. Whether it becomes
  // resident, and who leaves for it: `leaves` is kNobody where there is room.
  // Units of `pinned` do not leave either; a set without words pins nobody.
  // Cost: O(1) or O(log n), and O(1) for each pinned unit that would have left.
  struct Answer {
    bool is_admitted = false;
    uint32_t leaves = kNobody;
  };
  virtual Answer Admit(size_t layer_idx, uint32_t unit,
                       const neuron::NeuronSet& pinned) = 0;

  // Moves worth making beside the computation: units to fetch, none of them
  // resident, each with who leaves (kNobody where there is room), at most
  // `most` of them (what the overlap window takes, DynamicInfer E.3), the best
  // first. They count as carried out at once. What cannot be carried out (a
  // disk that fails) is taken back by Drop. Policies that only wait for misses
  // propose those of the last Observe.
  struct Move {
    uint32_t unit = 0;
    uint32_t leaves = kNobody;
  };
  virtual std::vector<Move> Propose(size_t layer_idx, size_t most) = 0;

  // A resident unit (CHECKed) is not in the faster tier after all.
  virtual void Drop(size_t layer_idx, uint32_t unit) = 0;

  // Before the layer's next Observe: what its last pass waited for. Those who
  // do not adapt ignore it.
  virtual void Tell(size_t /*layer_idx*/, Bottleneck /*what*/) {}

  virtual bool IsResident(size_t layer_idx, uint32_t unit) const = 0;
  virtual size_t num_resident(size_t layer_idx) const = 0;

 protected:
  Policy() = default;
};

struct PolicyInfo {
  std::string_view name;
  std::string_view text;        // a line for people
  std::string_view parameters;  // "lambda=0.5,tau=..." with defaults; or empty
};
// "static": by frequency, never changes (PowerInfer). "lru". "lfu".
// "two-queue": PowerInfer-2's. "window": LLM in a Flash's. "eager": Neuralink's
// as KAIROX describes it, "current": Q-Infer's, "macro-micro": DynamicInfer's,
// "momentum": KAIROX's. "slow": slow scores over the frequency prior, with
// hysteresis: ours, the default.
std::span<const PolicyInfo> Policies();

// `spec` is a name, or a name with parameters: "momentum:adapt=off,lambda=0.5".
// kNotFound: no such name, with all that there are. kInvalidArgument: a
// parameter that it does not have, twice, or out of its range (its parameters
// are named); a frequency that is not finite or negative, or of another length;
// the layer is named.
Result<std::unique_ptr<Policy>> MakePolicy(
    std::string_view spec, const std::vector<LayerExtent>& layers);

// As MakePolicy, but only looks at the spec.
Status CheckPolicySpec(std::string_view spec);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_POLICY_H_
