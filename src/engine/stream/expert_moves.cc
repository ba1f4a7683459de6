// The part of an ExpertStream that tells the policy of a run, and reads in the
// background whom that proposes.
#include <algorithm>

#include "engine/stream/expert_stream.h"

namespace thermocline::engine {

void ExpertStream::Learn() {
  DropLost(layer_idx_);
  live_.Observe(layer_idx_, used());
  for (const uint32_t expert : experts_) {
    const uint32_t unit = UnitOf(expert);
    if (IsKept(unit)) continue;
    const LivePolicy::Answer answer = live_.Admit(layer_idx_, expert, used());
    if (!answer.is_admitted) continue;
    if (answer.leaves != residency::kNobody) Leave(answer.leaves);
    if (slots_.IsThere(unit)) slots_.Set(unit, SlotState::kKept);
  }
}

// Its slot may be taken from now on.
void ExpertStream::Leave(uint32_t expert) {
  const uint32_t unit = UnitOf(expert);
  if (slots_.IsThere(unit) && slots_.state(unit) == SlotState::kKept) {
    slots_.Set(unit, SlotState::kOver);
  }
}

void ExpertStream::Wait() {
  const double begun_at = live_.Now();
  const auto is_missed = [&](uint32_t expert) {
    const uint32_t unit = UnitOf(expert);
    return IsWanted(unit) && slots_.IsReading(unit) &&
           !is_move_[slots_.number(unit)];
  };
  const bool for_misses = std::ranges::any_of(experts_, is_missed);
  Reap(true);
  (for_misses ? times_.for_misses : times_.for_moves) += live_.Now() - begun_at;
}

void ExpertStream::StartMoves() {
  for (const LivePolicy::Move& move :
       live_.Propose(layer_idx_, num_moving_[layer_idx_] > 0)) {
    if (move.leaves != residency::kNobody) Leave(move.leaves);
    const uint32_t unit = UnitOf(move.unit);
    if (slots_.IsThere(unit)) {
      slots_.Set(unit, SlotState::kKept);
      continue;
    }
    // Where it cannot be read now it comes when it is used.
    if (slots_.IsReading(unit) || !StartRead(unit, /*is_guess=*/true)) continue;
    is_move_[slots_.number(unit)] = true;
    ++num_moving_[layer_idx_];
    counts_.num_move_bytes +=
        layers_[layer_idx_].blocks[move.unit].layout.read_bytes();
  }
  Submit();
}

// Of moves that failed: unless they have come by another way.
void ExpertStream::DropLost(size_t layer_idx) {
  std::ranges::sort(lost_[layer_idx]);
  for (const uint32_t expert : lost_[layer_idx]) {
    const uint32_t unit = UnitOf(layer_idx, expert);
    if (IsKept(unit) && slots_.IsAbsent(unit)) live_.Drop(layer_idx, expert);
  }
  lost_[layer_idx].clear();
}

void ExpertStream::AwaitMoves(size_t layer_idx) {
  while (num_moving_[layer_idx] > 0) Reap(true);
}

}  // namespace thermocline::engine
