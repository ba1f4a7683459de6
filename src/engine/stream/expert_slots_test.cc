#include "engine/stream/expert_slots.h"

#include <gtest/gtest.h>

namespace thermocline::engine {
namespace {

TEST(ExpertSlotsTest, WhoIsOverLeavesFirstThenGuesses) {
  ExpertSlots slots =
      ExpertSlots::Allocate({.slot_bytes = 4096, .pass_slots = 4}, 9).value();
  for (uint32_t unit = 0; unit < 4; ++unit) {
    EXPECT_TRUE(slots.IsAbsent(unit));
    ASSERT_TRUE(slots.Take(unit, /*is_guess=*/unit % 2 != 0));
    EXPECT_TRUE(slots.IsReading(unit));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slots.base(unit)) % 4096, 0u);
    EXPECT_EQ(slots.unit_in(slots.number(unit)), unit);
  }
  EXPECT_FALSE(slots.Take(4, false));  // all are on their way
  slots.Arrive(0, SlotState::kGuessed);
  slots.Arrive(1, SlotState::kHeld);
  slots.Arrive(2, SlotState::kOver);
  slots.Arrive(3, SlotState::kKept);
  EXPECT_TRUE(slots.IsThere(2));
  std::byte* const base = slots.base(2);
  ASSERT_TRUE(slots.Take(4, true));
  EXPECT_EQ(slots.base(4), base);
  EXPECT_TRUE(slots.IsAbsent(2));
  EXPECT_FALSE(slots.Take(5, true));  // guesses take nothing from each other
  ASSERT_TRUE(slots.Take(5, false));
  EXPECT_TRUE(slots.IsAbsent(0));
  EXPECT_FALSE(slots.Take(6, false));
  slots.Set(3, SlotState::kOver);
  EXPECT_TRUE(slots.Take(6, true));
  slots.Drop(6);  // its read failed
  EXPECT_TRUE(slots.IsAbsent(6));
  EXPECT_TRUE(slots.Take(7, true));
  EXPECT_TRUE(slots.IsThere(1));
}

}  // namespace
}  // namespace thermocline::engine
