#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "storage/block_reader.h"
#include "storage/test_reader.h"

namespace thermocline::storage {
namespace {

using ::testing::HasSubstr;

constexpr size_t kNumReads = 200, kBlock = 4096;

// Reads each block of a file once and reaps with single calls: the order of
// tags, and what failed.
struct Played {
  std::vector<uint64_t> order;
  std::set<uint64_t> failed;
  size_t num_calls = 0;
  size_t num_wrong = 0;  // bytes that are not the file's, of reads that did
};

Played Play(const FakeOptions& options) {
  const std::vector<std::byte> file = RandomBytes(kNumReads * kBlock, 4);
  const auto reader = MakeFakeReader({file}, options);
  GuardedMemory memory(file.size());
  std::vector<Read> reads;
  for (size_t i = 0; i < kNumReads; ++i) {
    reads.push_back({0, i * kBlock, kBlock, memory.data() + i * kBlock, i});
  }
  reader->Submit(reads);
  Played played;
  std::vector<Done> done(kNumReads);
  while (played.order.size() < kNumReads) {
    ++played.num_calls;
    const size_t num = reader->Reap(done, false);
    for (size_t i = 0; i < num; ++i) {
      const uint64_t tag = done[i].tag;
      played.order.push_back(tag);
      if (!done[i].status.has_value()) {
        EXPECT_EQ(done[i].status.error().code, ErrorCode::kIo);
        EXPECT_THAT(done[i].status.error().message,
                    HasSubstr(std::to_string(tag * kBlock)));
        played.failed.insert(tag);
        continue;
      }
      // At once: what comes later may not be what is there now.
      const Read& read = reads[tag];
      played.num_wrong +=
          !std::equal(read.to, read.to + kBlock,
                      file.begin() + static_cast<ptrdiff_t>(read.offset));
    }
  }
  EXPECT_TRUE(memory.IsUntouchedAround());
  return played;
}

TEST(FakeReaderTest, ASeedIsAnOrder) {
  const Played played = Play({.seed = 7});
  EXPECT_EQ(Play({.seed = 7}).order, played.order);
  EXPECT_NE(Play({.seed = 8}).order, played.order);
  EXPECT_FALSE(std::ranges::is_sorted(played.order));
  EXPECT_EQ(played.num_calls, 4u);
  EXPECT_EQ(Play({.seed = 7, .most_waits = 1}).num_calls, 1u);
  EXPECT_EQ(Play({.seed = 7, .most_waits = 0}).num_calls, 1u);
}

TEST(FakeReaderTest, FaultsDisturbNoOtherRead) {
  const Played sound = Play({.seed = 7});
  EXPECT_TRUE(sound.failed.empty());
  EXPECT_EQ(sound.num_wrong, 0u);

  const Played one = Play({.seed = 7, .fail_read = 13});
  EXPECT_EQ(one.failed, std::set<uint64_t>{12});
  EXPECT_EQ(one.order, sound.order);
  EXPECT_EQ(one.num_wrong, 0u);

  const Played some = Play({.seed = 7, .fail_share = 0.1, .short_share = 0.5});
  EXPECT_GT(some.failed.size(), 5u);
  EXPECT_LT(some.failed.size(), 40u);
  EXPECT_EQ(some.num_wrong, 0u);
  // Short ones took a second draw of time.
  EXPECT_GT(some.num_calls, 4u);

  EXPECT_EQ(Play({.seed = 7, .fail_share = 1.0}).failed.size(), kNumReads);
}

TEST(FakeReaderTest, NothingIsThereBeforeItIsReaped) {
  const std::vector<std::byte> file(kBlock, std::byte{1});
  const auto reader = MakeFakeReader({file}, {.seed = 3, .most_waits = 50});
  std::vector<std::byte> memory(kBlock, std::byte{1});
  const Read read{0, 0, kBlock, memory.data(), 9};
  reader->Submit({&read, 1});
  EXPECT_EQ(memory[kBlock / 2], std::byte{0xa5});
  // One call that waits is as long as it takes.
  Done done;
  ASSERT_EQ(reader->Reap({&done, 1}, true), 1u);
  EXPECT_EQ(done.tag, 9u);
  EXPECT_EQ(memory, file);
}

}  // namespace
}  // namespace thermocline::storage
