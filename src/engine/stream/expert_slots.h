// Slots in which experts lie, and who may take whose.
#ifndef THERMOCLINE_ENGINE_STREAM_EXPERT_SLOTS_H_
#define THERMOCLINE_ENGINE_STREAM_EXPERT_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/stream/block_layout.h"
#include "os/memory.h"
#include "residency/unit_lists.h"

namespace thermocline::engine {

enum class SlotState : uint8_t { kOver, kGuessed, kReading, kHeld, kKept };

// Experts of all layers are numbered: units. A slot is empty or has a unit,
// which
//   kOver     was used, or guessed wrong: whoever needs a slot takes it
//   kGuessed  came early for the next layer: whoever is needed now takes it,
//             once no other is left; guesses do not
//   kReading  is on its way
//   kHeld     is in use by the run at hand
//   kKept     stays, because a policy says so
// Nothing is ever copied: a unit changes its state and stays where it is.
// Every call is O(1). Threads  one caller at a time.
class ExpertSlots {
 public:
  static constexpr uint32_t kNone = residency::kNobody;

  // kResourceExhausted: no memory.
  static Result<ExpertSlots> Allocate(const BlockPlan& plan,
                                      uint32_t num_units);

  bool IsAbsent(uint32_t unit) const { return slot_of_[unit] == kNone; }
  bool IsReading(uint32_t unit) const {
    return !IsAbsent(unit) &&
           slots_[slot_of_[unit]].state == SlotState::kReading;
  }
  bool IsThere(uint32_t unit) const {
    return !IsAbsent(unit) && !IsReading(unit);
  }
  SlotState state(uint32_t unit) const { return slots_[slot_of_[unit]].state; }
  std::byte* base(uint32_t unit) const { return slot(slot_of_[unit]); }
  uint32_t number(uint32_t unit) const { return slot_of_[unit]; }
  uint32_t unit_in(uint32_t number) const { return slots_[number].unit; }

  // A slot for a unit that is absent, which is kReading from then on; false:
  // there is none. is_guess: not one of who was guessed too.
  bool Take(uint32_t unit, bool is_guess);
  // Of a unit that is there, but not kReading as the new state.
  void Set(uint32_t unit, SlotState state);
  // A unit that was kReading has come, or is nothing to keep.
  void Arrive(uint32_t unit, SlotState state);
  void Drop(uint32_t unit);

  // Of all slots.
  std::span<std::byte> memory() const {
    return {base_, slots_.size() * slot_bytes_};
  }
  uint64_t num_bytes() const { return memory_.size(); }

 private:
  // Lists of slots that may be taken, in that order; of each the last.
  enum List : uint32_t { kEmptyList, kOverList, kGuessedList, kNumLists };

  struct Slot {
    uint32_t unit = kNone;
    SlotState state = SlotState::kOver;
  };

  ExpertSlots(const BlockPlan& plan, uint32_t num_units,
              os::AlignedBuffer memory);
  std::byte* slot(uint32_t number) const {
    return base_ + size_t{number} * slot_bytes_;
  }
  static bool IsListed(SlotState state) {
    return state == SlotState::kOver || state == SlotState::kGuessed;
  }
  void Enlist(uint32_t number);

  size_t slot_bytes_;
  os::AlignedBuffer memory_;
  std::byte* base_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> slot_of_;  // [units], or kNone
  residency::UnitLists lists_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_EXPERT_SLOTS_H_
