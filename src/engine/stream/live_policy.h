// A residency policy as an engine runs it: what it is told, in which order, and
// what came of it.
#ifndef THERMOCLINE_ENGINE_STREAM_LIVE_POLICY_H_
#define THERMOCLINE_ENGINE_STREAM_LIVE_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/stream/move_budget.h"
#include "engine/stream/stream_options.h"
#include "neuron/neuron_set.h"
#include "residency/policy.h"
#include "residency/replay.h"

namespace thermocline::engine {

struct LiveOptions {
  // The same runs, the same residents, whatever clocks say: the number of moves
  // is fixed, and what a run waited for comes from counts.
  bool deterministic = false;
  // Of all layers; empty: what there is time for, or under `deterministic`
  // FixedMovesPerToken.
  std::optional<uint64_t> moves_per_token;
  size_t unit_bytes = 1;  // that a move reads
};

// Moves of a pass under `deterministic`, for so many slots of residents: few
// beside what is missed, and a slot's turn comes within a paragraph or two.
uint64_t FixedMovesPerToken(const std::vector<residency::LayerExtent>& layers);
// What a layer's pass waited for, likewise: by what a drive and a processor
// take, roughly, anywhere.
residency::Bottleneck FixedBottleneck(const residency::PassCounts& counts);
// With which a residency::Replayer of the same layers that is given what the
// runs used does what a deterministic LivePolicy does.
residency::ReplayOptions ReplayOptionsFor(uint64_t moves_per_token);

// What a run waited for: of its own reads, and those of moves, in seconds; and
// what its own reads were.
struct RunTimes {
  double for_misses = 0.0, for_moves = 0.0;
  uint64_t read_bytes = 0;
  double read_seconds = 0.0;
  bool is_idle = true;  // behind it nothing is being read
};

// Of each layer: Initial; then of each run BeginRun, Observe, Admit of those
// used that it does not have, ascending, EndRun, Propose. EndPass behind the
// last layer's. That is the order of residency::Replayer.
// Threads  one caller at a time. Cost: the policy's, and words of two bits a
//          unit.
class LivePolicy {
 public:
  using Move = residency::Policy::Move;
  using Answer = residency::Policy::Answer;

  // The policy was made for these layers, and is new. What it does is counted
  // in `counts`, which outlives it.
  LivePolicy(std::unique_ptr<residency::Policy> policy,
             std::vector<residency::LayerExtent> layers,
             const LiveOptions& options, StreamTotals::OfPhase* counts);

  bool is_deterministic() const { return options_.deterministic; }
  // While it rests, runs change nothing: those of checks are no text.
  void set_rests(bool rests) { rests_ = rests; }

  std::vector<uint32_t> Initial(size_t layer_idx);

  void BeginRun();
  void Observe(size_t layer_idx, const neuron::NeuronSet& used);
  // Of a layer that has a slot for everybody, where there is nothing to learn.
  void ObserveAllResident(uint64_t num_used);
  Answer Admit(size_t layer_idx, uint32_t unit,
               const neuron::NeuronSet& pinned);
  void EndRun(size_t layer_idx, const RunTimes& times);
  // What is to be read in the background, as far as there is time; is_late: the
  // drive has not done with the last pass's, and there is none. They count as
  // carried out. Then the policy is told what the run waited for.
  std::vector<Move> Propose(size_t layer_idx, bool is_late);
  // One that could not be.
  void Drop(size_t layer_idx, uint32_t unit);
  void EndPass();

  bool Has(size_t layer_idx, uint32_t unit) const {
    return residents(layer_idx).Has(unit);
  }
  // A view, until the next call.
  neuron::NeuronSet residents(size_t layer_idx) const {
    return {layers_[layer_idx].residents.data(),
            layers_[layer_idx].extent.num_units};
  }
  const std::vector<residency::LayerExtent>& extents() const {
    return extents_;
  }
  // Where that is fixed.
  uint64_t moves_per_token() const { return moves_per_token_; }
  // Seconds from the beginning; deterministic runs look at no clock: 0.
  double Now() const { return options_.deterministic ? 0.0 : clock_.Seconds(); }

 private:
  struct Layer {
    residency::LayerExtent extent;
    mutable std::vector<uint64_t> residents;  // [WordsOf(units)]
    std::vector<uint64_t> unproven;  // admitted or moved, and not used since
    residency::PassCounts last;
    residency::Bottleneck waited = residency::Bottleneck::kNothing;
  };

  void Enter(Layer& layer, uint32_t unit, uint32_t leaves);
  void Leave(Layer& layer, uint32_t unit);
  uint64_t MostMoves(size_t layer_idx, bool is_late);
  bool has_fixed_moves() const {
    return options_.deterministic || options_.moves_per_token.has_value();
  }

  std::unique_ptr<residency::Policy> policy_;
  LiveOptions options_;
  std::vector<residency::LayerExtent> extents_;
  std::vector<Layer> layers_;
  MoveBudget budget_;
  Stopwatch clock_;
  uint64_t moves_per_token_;
  uint64_t num_moves_of_pass_ = 0;
  bool rests_ = false;
  StreamTotals::OfPhase& counts_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_LIVE_POLICY_H_
