#include "compute/carver.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline::compute {
namespace {

TEST(Carver, PlansWhatItBinds) {
  alignas(64) std::byte memory[4096];
  Carver plan(nullptr);
  Carver bind(memory);
  for (Carver* carver : {&plan, &bind}) {
    carver->TakeBytes(1, 3);
    const Rows rows = carver->TakeRows(3, 17);
    EXPECT_EQ(rows.width, 17u);
    EXPECT_EQ(rows.stride, 32u);
    const auto* ids = carver->Take<uint32_t>(2, 5);
    const std::byte* last = carver->TakeBytes(0, 8);
    if (carver == &plan) continue;
    EXPECT_EQ(reinterpret_cast<std::byte*>(rows.data), memory + 64);
    EXPECT_EQ(reinterpret_cast<const std::byte*>(ids),
              memory + 64 + 3 * 32 * sizeof(float));
    EXPECT_EQ(last, memory + bind.used());
  }
  EXPECT_EQ(plan.used(), bind.used());
  EXPECT_EQ(plan.used(), 64u + 384 + 64);
  EXPECT_FALSE(plan.overflowed());
}

// Arrays of which one is in use at a time begin in one place.
TEST(Carver, CoversTheLongestOfItsCopies) {
  alignas(64) std::byte memory[1024];
  Carver carver(memory);
  carver.TakeBytes(1, 64);
  const Carver start = carver;
  for (const uint64_t num_bytes : {128, 320, 64}) {
    Carver own = start;
    EXPECT_EQ(own.TakeBytes(1, num_bytes), memory + 64);
    carver.Cover(own);
  }
  EXPECT_EQ(carver.TakeBytes(1, 1), memory + 64 + 320);
  Carver too_much = start;
  too_much.TakeBytes(UINT64_MAX, 2);
  carver.Cover(too_much);
  EXPECT_TRUE(carver.overflowed());
}

TEST(Carver, OverflowIsNoted) {
  const std::vector<void (*)(Carver&)> takes = {
      [](Carver& carver) { carver.TakeBytes(UINT64_MAX, 2); },
      [](Carver& carver) { carver.TakeRows(1, UINT64_MAX); },
      [](Carver& carver) { carver.TakeRows(UINT64_MAX / 64, 17); },
      [](Carver& carver) { carver.Take<float>(1, UINT64_MAX / 2); },
      [](Carver& carver) { carver.TakeBytes(1, UINT64_MAX - 63); },
  };
  for (const auto& take : takes) {
    Carver carver(nullptr);
    take(carver);
    EXPECT_TRUE(carver.overflowed());
    carver.TakeBytes(1, 1);
    EXPECT_TRUE(carver.overflowed());
  }
}

}  // namespace
}  // namespace thermocline::compute
