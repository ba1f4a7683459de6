#include "predictor/selector.h"

#include <gtest/gtest.h>

#include "os/memory.h"

namespace thermocline::predictor {
namespace {

TEST(SelectorScratch, HasSignsForEveryRowAndCountsForEveryThread) {
  compute::Carver plan(nullptr);
  CarveSelectors(3, 90, 2, plan);
  const auto buffer = os::AlignedBuffer::Allocate(plan.used());
  ASSERT_TRUE(buffer.has_value());
  compute::Carver carver(buffer->data());
  const SelectorScratch scratch = CarveSelectors(3, 90, 2, carver);
  // 90 signs take 2 words.
  EXPECT_GE(reinterpret_cast<const uint64_t*>(scratch.differences),
            scratch.signs + 3 * 2);
  EXPECT_LE(reinterpret_cast<const std::byte*>(scratch.differences +
                                               2 * SelectorScratch::kSignRows),
            buffer->data() + plan.used());
}

}  // namespace
}  // namespace thermocline::predictor
