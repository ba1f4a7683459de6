// A policy run over what was used, token by token: what it would have had.
#ifndef THERMOCLINE_RESIDENCY_REPLAY_H_
#define THERMOCLINE_RESIDENCY_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "residency/policy.h"
#include "residency/resident_set.h"

namespace thermocline::residency {

struct Tally {
  uint64_t accesses = 0;  // units used, token by token
  uint64_t hits = 0;      // of them resident then
  uint64_t admissions = 0;
  uint64_t evictions = 0;
  // Admissions that ended before the unit was used again.
  uint64_t wasted = 0;

  uint64_t misses() const { return accesses - hits; }
  // Of the accesses; 0 without any.
  double hit_share() const;
  Tally& operator+=(const Tally& other);
  bool operator==(const Tally&) const = default;
};

struct Replay {
  std::vector<Tally> layers;     // [L]
  std::vector<uint32_t> misses;  // [T] of each token, all layers together

  Tally total() const;
  // The least number of misses that `share` of the tokens do not exceed: 0.9
  // for P90. 0 without tokens. Cost: sorts.
  uint32_t MissesAt(double share) const;
  double mean_misses() const;
};

// One token's units, layer by layer: ascending, < num_units.
using TokenSets = std::span<const std::vector<uint32_t>>;

// Runs a policy as an engine does that reads every miss: what is read is
// offered to it. Those resident from the start were not admitted.
class Replayer {
 public:
  // The policy, made for these layers and new, outlives it.
  Replayer(Policy* policy, const std::vector<LayerExtent>& layers);

  // The next token. Requires as many sets as layers (CHECKed).
  void Add(TokenSets sets);

  const Replay& replay() const { return replay_; }

 private:
  void Admit(size_t layer_idx, uint32_t unit, const neuron::NeuronSet& used);

  Policy* policy_;
  Replay replay_;
  std::vector<std::vector<uint64_t>> used_words_;  // [L]
  std::vector<size_t> num_units_;                  // [L]
  // [L][unit] admitted, and not used since.
  std::vector<std::vector<bool>> is_unproven_;
};

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_REPLAY_H_
