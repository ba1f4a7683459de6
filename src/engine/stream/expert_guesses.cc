// The part of an ExpertStream that reads experts of the next layer, before
// anybody asks for them.
#include <utility>

#include "base/check.h"
#include "engine/stream/expert_stream.h"

namespace thermocline::engine {

// Rows of prompts come first; what was guessed for those that were generated is
// settled behind them.
void ExpertStream::Settle(Phase phase) {
  const bool is_over = phase == Phase::kGenerate || !is_of_generated_;
  for (uint32_t e = 0; e < layers_[layer_idx_].num_experts(); ++e) {
    const bool is_used = in_run_[e] != InRun::kNo;
    if (is_used && is_over && is_of_generated_) {
      ++counts_.num_foreseeable;
      if (guessed_[e].is_named) ++counts_.num_foreseen;
    }
    if (is_used) guessed_[e].is_read = false;
  }
  if (is_over) ForgetGuesses();
}

// What was read for one that is still there, for nobody, was so in vain.
void ExpertStream::ForgetGuesses() {
  if (guessed_layer_ == kNoLayer) return;
  for (uint32_t e = 0; e < layers_[guessed_layer_].num_experts(); ++e) {
    if (!std::exchange(guessed_[e], Guessed()).is_read) continue;
    ++counts_.num_vain;
    const uint32_t unit = UnitOf(guessed_layer_, e);
    if (slots_.IsThere(unit) && slots_.state(unit) == SlotState::kGuessed) {
      slots_.Set(unit, SlotState::kOver);
    }
  }
  guessed_layer_ = kNoLayer;
  is_of_generated_ = false;
}

void ExpertStream::StartGuesses(size_t layer_idx) {
  if (guessed_layer_ == layer_idx) return;
  ForgetGuesses();
  guessed_layer_ = layer_idx;
}

void ExpertStream::Guess(size_t layer_idx, std::span<const uint32_t> experts) {
  TC_CHECK(layer_idx != layer_idx_);
  if (live_.is_deterministic()) return;
  StartGuesses(layer_idx);
  is_of_generated_ = true;
  for (const uint32_t expert : experts) guessed_[expert].is_named = true;
  // What is needed now has the slots first.
  for (const uint32_t expert : experts_) {
    if (has_begun() && IsWanted(UnitOf(expert)) &&
        slots_.IsAbsent(UnitOf(expert))) {
      return;
    }
  }
  for (const uint32_t expert : experts) {
    const uint32_t unit = UnitOf(layer_idx, expert);
    if (!slots_.IsAbsent(unit)) continue;
    if (!StartRead(unit, /*is_guess=*/true)) break;
    guessed_[expert].is_read = true;
  }
  Submit();
}

void ExpertStream::ReadNext() {
  StartGuesses(layer_idx_ + 1);
  for (uint32_t e = 0; e < layers_[guessed_layer_].num_experts(); ++e) {
    const uint32_t unit = UnitOf(guessed_layer_, e);
    if (!slots_.IsAbsent(unit)) continue;
    if (!StartRead(unit, /*is_guess=*/true)) return;
    guessed_[e].is_read = true;
  }
}

}  // namespace thermocline::engine
