// A policy run over what was used, token by token: what it would have had.
#ifndef THERMOCLINE_RESIDENCY_REPLAY_H_
#define THERMOCLINE_RESIDENCY_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "residency/policy.h"
#include "residency/unit_members.h"

namespace thermocline::residency {

struct Tally {
  uint64_t accesses = 0;  // units used, token by token
  // Of them, resident before the token's own moves.
  uint64_t hits = 0;
  uint64_t admissions = 0;  // critical moves: of misses that were read
  uint64_t moves = 0;       // that the policy proposed
  uint64_t evictions = 0;
  // Admissions and moves that ended before the unit was used again.
  uint64_t wasted = 0;
  // Members of units that were admitted or moved, and of them those that the
  // token did not use (over-fetch; 0 where a unit is one member).
  uint64_t fetched_members = 0;
  uint64_t idle_members = 0;
  uint64_t wasted_members = 0;  // of `wasted`
  // As accesses and hits, but their members that were used: what groups of
  // different sizes are compared by.
  uint64_t member_accesses = 0;
  uint64_t member_hits = 0;

  uint64_t misses() const { return accesses - hits; }
  // Of the accesses; 0 without any.
  double hit_share() const;
  Tally& operator+=(const Tally& other);
  bool operator==(const Tally&) const = default;
};

struct Replay {
  std::vector<Tally> layers;  // [L]
  // [T] of each token that is counted, all layers together
  std::vector<uint32_t> misses;
  // [T] of each token, all layers together, where options.seconds says it.
  std::vector<double> seconds;

  Tally total() const;
  // The least number of misses that `share` of the tokens do not exceed: 0.9
  // for P90. 0 without tokens. Cost: sorts.
  uint32_t MissesAt(double share) const;
  double mean_misses() const;
  // The same of the seconds.
  double SecondsAt(double share) const;
  double mean_seconds() const;
};

// One token's members, layer by layer: ascending, < LayerExtent::members().
using TokenSets = std::span<const std::vector<uint32_t>>;

// What becomes of who is missing.
enum class Misses : uint8_t {
  kRead,      // it has to come, and is offered to the policy (storage to RAM)
  kComputed,  // where it lies, by somebody else (RAM to VRAM): moves alone
              // count
};

// What a token is to a policy.
enum class Step : uint8_t {
  kPass,       // it is used, misses come, moves are made
  kUncounted,  // the same, but no tally has it
  kLesson,  // the policy hears of it and is offered who misses, where that is
            // read; it proposes nothing, is told nothing, no tally has it
};

// Of a layer and a token, in members.
struct PassCounts {
  size_t layer_idx = 0;
  uint32_t hits = 0;    // used, of resident units
  uint32_t misses = 0;  // used, of others
  // Of units that were proposed, and of those admitted what was not used and so
  // was not read yet: none where a unit is one member.
  uint32_t moves = 0;
};

struct ReplayOptions {
  Misses misses = Misses::kRead;
  // Of Propose, a token, all layers together; layers have equal shares, and
  // what one leaves is the next one's.
  uint64_t moves_per_token = 0;
  // What the pass waited for, told to the policy before the layer's next one;
  // empty: nothing.
  std::function<Bottleneck(const PassCounts&)> bottleneck;
  // How long the pass takes; empty: nobody asks. Both at once: UseRates of
  // move_cost.h.
  std::function<double(const PassCounts&)> seconds;
};

// Runs a policy as an engine does. Those resident from the start were not
// admitted.
class Replayer {
 public:
  // The policy, made for these layers and new, outlives it.
  Replayer(Policy* policy, const std::vector<LayerExtent>& layers,
           ReplayOptions options = {});

  // The next token. Requires as many sets as layers (CHECKed).
  void Add(TokenSets sets, Step step = Step::kPass);

  const Replay& replay() const { return replay_; }

 private:
  struct Layer {
    explicit Layer(const LayerExtent& extent);

    UnitMembers members;
    std::vector<uint64_t> used_words;  // of members
    std::vector<bool> is_unproven;     // [unit] came, and not used since
    neuron::NeuronSet used();
  };

  Tally& TallyOf(size_t layer_idx) {
    return step_ == Step::kPass ? replay_.layers[layer_idx] : uncounted_;
  }
  // Returns what the layer's pass came to.
  PassCounts Pass(size_t layer_idx, std::span<const uint32_t> members);
  // What of the layer's units is missing, ascending; counts all.
  std::vector<uint32_t> CountUsed(size_t layer_idx,
                                  const neuron::NeuronSet& units,
                                  PassCounts& counts);
  void Admit(size_t layer_idx, const neuron::NeuronSet& units,
             std::span<const uint32_t> missed, PassCounts& counts);
  void Propose(size_t layer_idx, PassCounts& counts);
  // Returns how many of the unit's members the token does not use.
  uint32_t Fetched(size_t layer_idx, uint32_t unit, uint32_t leaves);

  Policy* policy_;
  ReplayOptions options_;
  Replay replay_;
  std::deque<Layer> layers_;
  uint64_t num_moves_ = 0;   // that were proposed for this token
  Step step_ = Step::kPass;  // of this token
  Tally uncounted_;
};

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_REPLAY_H_
