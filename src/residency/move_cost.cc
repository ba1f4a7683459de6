#include "residency/move_cost.h"

#include <algorithm>
#include <cmath>

namespace thermocline::residency {
namespace {

struct Sides {
  double hits;
  double misses;  // with what they are waited for
};

Sides SidesOf(const MoveRates& rates, const PassCounts& counts) {
  return {.hits = rates.per_hit * counts.hits,
          .misses = counts.misses == 0 ? 0.0
                                       : rates.per_miss * counts.misses +
                                             rates.per_layer_with_misses};
}

double TimeOfMoves(const MoveRates& rates, uint32_t num_moves) {
  return num_moves == 0 ? 0.0 : rates.moves_start + rates.per_move * num_moves;
}

}  // namespace

LayerTime TimeOf(const MoveRates& rates, const PassCounts& counts) {
  const Sides sides = SidesOf(rates, counts);
  LayerTime time = {.compute = rates.other + std::max(sides.hits, sides.misses),
                    .moves = TimeOfMoves(rates, counts.moves)};
  time.stall = std::max(0.0, time.moves - rates.lookahead * time.compute);
  return time;
}

Bottleneck BottleneckOf(const MoveRates& rates, const PassCounts& counts) {
  if (TimeOf(rates, counts).stall > 0.0) return Bottleneck::kMoves;
  const Sides sides = SidesOf(rates, counts);
  return sides.misses > sides.hits ? Bottleneck::kMisses : Bottleneck::kNothing;
}

uint32_t MovesInWindow(const MoveRates& rates, const PassCounts& counts) {
  const auto fits = [&](uint32_t num_moves) {
    PassCounts with = counts;
    with.moves = num_moves;
    return TimeOf(rates, with).stall == 0.0;
  };
  // A search, so that no rounding makes it differ from TimeOf.
  uint32_t most = 0;
  for (uint32_t step = uint32_t{1} << 31; step > 0; step /= 2) {
    if (fits(most + step)) most += step;
  }
  return most;
}

void UseRates(const MoveRates& rates, ReplayOptions& options) {
  options.bottleneck = [rates](const PassCounts& counts) {
    return BottleneckOf(rates, counts);
  };
  options.seconds = [rates](const PassCounts& counts) {
    return TimeOf(rates, counts).total();
  };
}

}  // namespace thermocline::residency
