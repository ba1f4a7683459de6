// How long a token takes with what was hit, missed and moved: DynamicInfer E.3.
#ifndef THERMOCLINE_RESIDENCY_MOVE_COST_H_
#define THERMOCLINE_RESIDENCY_MOVE_COST_H_

#include <cstdint>

#include "residency/replay.h"

namespace thermocline::residency {

// Seconds, of one layer and one token; per member. All >= 0.
struct MoveRates {
  double per_hit = 0.0;   // t_gpu: a resident one
  double per_miss = 0.0;  // t_cpu: one that is not; or read, then computed
  // t_sync: where there are misses.
  double per_layer_with_misses = 0.0;
  double per_move = 0.0;     // t_trans
  double moves_start = 0.0;  // t_0: where there are moves
  double other = 0.0;        // t_other: attention and what else a layer does
  uint32_t lookahead = 1;    // k: layers that moves may run beside
};

struct LayerTime {
  double compute = 0.0;  // other + max(hits, misses and sync)
  double moves = 0.0;
  double stall = 0.0;  // of moves what the window leaves over
  double total() const { return compute + stall; }
};

// Moves overlap with the computation of `lookahead` layers like this one.
LayerTime TimeOf(const MoveRates& rates, const PassCounts& counts);

// kMoves where there is a stall; else kMisses where misses take longer than
// hits; else kNothing.
Bottleneck BottleneckOf(const MoveRates& rates, const PassCounts& counts);

// Moves that fit the window of a layer with these hits and misses: the most for
// which there is no stall.
// Of `counts` its moves are not read.
uint32_t MovesInWindow(const MoveRates& rates, const PassCounts& counts);

// A replay of layers that are all alike tells its policy what these rates say,
// and adds up the seconds.
void UseRates(const MoveRates& rates, ReplayOptions& options);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_MOVE_COST_H_
