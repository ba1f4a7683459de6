#include "engine/stream/expert_slots.h"

#include <utility>

#include "base/check.h"

namespace thermocline::engine {

Result<ExpertSlots> ExpertSlots::Allocate(const BlockPlan& plan,
                                          uint32_t num_units) {
  // Smaller buffers are aligned to less.
  const size_t slack =
      plan.num_bytes() < (size_t{1} << 20) ? kBlockAlignment - 1 : 0;
  auto memory = os::AlignedBuffer::Allocate(plan.num_bytes() + slack);
  if (!memory) return Annotate("slots of experts", memory.error());
  return ExpertSlots(plan, num_units, *std::move(memory));
}

ExpertSlots::ExpertSlots(const BlockPlan& plan, uint32_t num_units,
                         os::AlignedBuffer memory)
    : slot_bytes_(plan.slot_bytes),
      memory_(std::move(memory)),
      base_(memory_.data()),
      slots_(plan.num_slots()),
      slot_of_(num_units, kNone),
      lists_(slots_.size(), kNumLists) {
  const auto odd = reinterpret_cast<uintptr_t>(base_) % kBlockAlignment;
  if (odd != 0) base_ += kBlockAlignment - odd;
  TC_CHECK(base_ + plan.num_bytes() <= memory_.data() + memory_.size());
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    lists_.PushFront(kEmptyList, i);
  }
}

bool ExpertSlots::Take(uint32_t unit, bool is_guess) {
  TC_CHECK(IsAbsent(unit));
  uint32_t number = kNone;
  for (uint32_t list = 0;
       list < (is_guess ? kGuessedList : kNumLists) && number == kNone;
       ++list) {
    number = lists_.Back(list);
  }
  if (number == kNone) return false;
  lists_.Remove(number);
  Slot& slot = slots_[number];
  if (slot.unit != kNone) slot_of_[slot.unit] = kNone;
  slot = {unit, SlotState::kReading};
  slot_of_[unit] = number;
  return true;
}

void ExpertSlots::Set(uint32_t unit, SlotState state) {
  TC_CHECK(IsThere(unit) && state != SlotState::kReading);
  const uint32_t number = slot_of_[unit];
  if (IsListed(slots_[number].state)) lists_.Remove(number);
  slots_[number].state = state;
  Enlist(number);
}

void ExpertSlots::Arrive(uint32_t unit, SlotState state) {
  TC_CHECK(IsReading(unit) && state != SlotState::kReading);
  slots_[slot_of_[unit]].state = state;
  Enlist(slot_of_[unit]);
}

void ExpertSlots::Drop(uint32_t unit) {
  TC_CHECK(IsReading(unit));
  const uint32_t number = std::exchange(slot_of_[unit], kNone);
  slots_[number] = {};
  lists_.PushFront(kEmptyList, number);
}

void ExpertSlots::Enlist(uint32_t number) {
  const SlotState state = slots_[number].state;
  if (!IsListed(state)) return;
  lists_.PushFront(state == SlotState::kOver ? kOverList : kGuessedList,
                   number);
}

}  // namespace thermocline::engine
