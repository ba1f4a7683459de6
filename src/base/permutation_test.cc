#include "base/permutation.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace thermocline {
namespace {

template <typename Int>
std::optional<size_t> Find(const std::vector<Int>& numbers, size_t size) {
  return FindMisplaced(numbers.size(), size,
                       [&](size_t place) { return numbers[place]; });
}

TEST(FindMisplacedTest, NoneInAPermutationOrItsBeginning) {
  EXPECT_EQ(Find<uint32_t>({2, 0, 1}, 3), std::nullopt);
  EXPECT_EQ(Find<uint32_t>({2, 0}, 3), std::nullopt);
  EXPECT_EQ(Find<uint32_t>({}, 0), std::nullopt);
}

TEST(FindMisplacedTest, WhatOccursTwiceOrIsOutside) {
  EXPECT_EQ(Find<uint32_t>({2, 0, 2}, 3), 2u);
  EXPECT_EQ(Find<uint32_t>({0, 3, 1}, 3), 1u);
  EXPECT_EQ(Find<int32_t>({-1, 0}, 3), 0u);
  EXPECT_EQ(Find<int64_t>({0, int64_t{1} << 40}, 3), 1u);
  EXPECT_EQ(Find<uint32_t>({0, 1, 2, 0}, 3), 3u);
}

}  // namespace
}  // namespace thermocline
