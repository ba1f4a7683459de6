#include "storage/fixed_memory.h"

#include <gtest/gtest.h>

#include <array>

namespace thermocline::storage {
namespace {

TEST(FixedMemoryTest, FindsWhatLiesInOnePiece) {
  std::array<std::byte, 1000> bytes;
  const std::span<std::byte> all(bytes);
  // [500, 600), then [100, 350) in three pieces: sorted 0 to 3.
  const std::span<std::byte> ranges[] = {
      all.subspan(500, 100), {}, all.subspan(100, 250)};
  const FixedMemory memory(ranges, 100);
  ASSERT_EQ(memory.pieces().size(), 4u);
  EXPECT_EQ(memory.num_bytes(), 350u);
  struct Case {
    size_t begin, num_bytes;
    int piece;  // -1: none
  };
  for (const auto& [begin, num_bytes, piece] :
       {Case{100, 1, 0}, Case{100, 100, 0}, Case{199, 1, 0}, Case{200, 100, 1},
        Case{300, 50, 2}, Case{500, 100, 3}, Case{599, 1, 3},
        // Outside, over an edge, over two pieces.
        Case{0, 1, -1}, Case{99, 1, -1}, Case{99, 2, -1}, Case{100, 101, -1},
        Case{199, 2, -1}, Case{349, 2, -1}, Case{350, 1, -1},
        Case{499, 101, -1}, Case{500, 101, -1}, Case{600, 1, -1},
        Case{700, 300, -1}}) {
    const auto found = memory.Find(bytes.data() + begin, num_bytes);
    EXPECT_EQ(found ? static_cast<int>(*found) : -1, piece)
        << begin << " " << num_bytes;
  }
  EXPECT_FALSE(FixedMemory().Find(bytes.data(), 1));
}

TEST(FixedMemoryDeathTest, RangesDoNotOverlap) {
  std::array<std::byte, 100> bytes;
  const std::span<std::byte> all(bytes);
  const std::span<std::byte> ranges[] = {all.first(60), all.subspan(50, 50)};
  EXPECT_DEATH(FixedMemory memory(ranges), "");
}

}  // namespace
}  // namespace thermocline::storage
