#include "engine/stream/read_rates.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline::engine {
namespace {

TEST(MeasureReads, GivesRatesOfWhatFits) {
  const std::vector<std::byte> file(300 << 10);
  std::vector<std::byte> memory(40 * 8192);
  const auto reader = storage::MakeFakeReader({file}, {.most_waits = 2});
  const auto rates = MeasureReads(
      *reader, {.shard_idx = 0, .offset = 4096, .num_bytes = 290 << 10}, 4096,
      8192, memory);
  ASSERT_EQ(rates.size(), 5u);
  for (const ReadRate& rate : rates) {
    EXPECT_GT(rate.reads_per_s, 0.0);
    EXPECT_LE(rate.num_bytes * rate.depth, memory.size());
  }
}

TEST(MeasureReads, FailedReadsGiveNone) {
  const std::vector<std::byte> file(64 << 10);
  std::vector<std::byte> memory(1 << 20);
  const auto reader = storage::MakeFakeReader({file}, {.fail_share = 1.0});
  EXPECT_TRUE(MeasureReads(*reader, {.num_bytes = 64 << 10}, 4096, 8192, memory)
                  .empty());
}

}  // namespace
}  // namespace thermocline::engine
