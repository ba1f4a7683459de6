#include "engine/stream/block_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace thermocline::engine {
namespace {

using ::testing::ElementsAre;

TEST(BlockLayoutTest, SpansLieWhereTheirReadsBringThem) {
  const std::vector<gguf::FileSpan> spans = {
      {.shard_idx = 0, .offset = 9000, .num_bytes = 100},
      {.shard_idx = 0, .offset = 64, .num_bytes = 4000},
      {.shard_idx = 0, .offset = 4064, .num_bytes = 8192 - 4064},
      {.shard_idx = 1, .offset = 20000, .num_bytes = 10000},
      {.shard_idx = 0, .offset = 50000, .num_bytes = 32}};
  const BlockLayout layout =
      LayBlock(spans, std::vector<uint64_t>{50100, 30000});
  ASSERT_EQ(layout.reads.size(), 3u);
  EXPECT_EQ(layout.reads[0].offset, 0u);
  EXPECT_EQ(layout.reads[0].num_bytes, 3 * kBlockAlignment);
  EXPECT_EQ(layout.reads[1].offset, 12 * kBlockAlignment);
  EXPECT_EQ(layout.reads[1].num_bytes, 50100 - 12 * kBlockAlignment);
  EXPECT_EQ(layout.reads[2].shard_idx, 1u);
  EXPECT_EQ(layout.reads[2].num_bytes, 30000 - 4 * kBlockAlignment);
  EXPECT_THAT(
      layout.span_offsets,
      ElementsAre(9000, 64, 4064, layout.reads[2].slot_offset + 20000 - 16384,
                  layout.reads[1].slot_offset + 50000 - 49152));
  EXPECT_EQ(layout.num_bytes % kBlockAlignment, 0u);

  std::vector<storage::Read> reads;
  std::byte slot{};
  EXPECT_EQ(AppendReads(layout, &slot, 2 * kBlockAlignment, 7, reads), 5u);
  uint64_t num_bytes = 0;
  for (size_t i = 0; i < reads.size(); ++i) {
    EXPECT_EQ(reads[i].tag, 7 + i);
    num_bytes += reads[i].num_bytes;
  }
  EXPECT_EQ(num_bytes, layout.read_bytes());
}

}  // namespace
}  // namespace thermocline::engine
