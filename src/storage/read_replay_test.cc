#include "storage/read_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "storage/test_reader.h"

namespace thermocline::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;

// A reader that knows how many reads were open at once.
class WatchedReader final : public BlockReader {
 public:
  explicit WatchedReader(std::unique_ptr<BlockReader> reader)
      : reader_(std::move(reader)) {}
  std::string_view name() const override { return reader_->name(); }
  size_t alignment() const override { return reader_->alignment(); }
  uint64_t file_bytes(uint32_t file_idx) const override {
    return reader_->file_bytes(file_idx);
  }
  std::optional<os::FileIdentity> identity(uint32_t file_idx) const override {
    return reader_->identity(file_idx);
  }
  Status CheckUnchanged() const override { return {}; }
  void RegisterMemory(std::span<const std::span<std::byte>> ranges) override {
    reader_->RegisterMemory(ranges);
  }
  void Submit(std::span<const Read> reads) override {
    num_open_ += reads.size();
    most_open_ = std::max(most_open_, num_open_);
    reader_->Submit(reads);
  }
  size_t Reap(std::span<Done> done, bool waits) override {
    const size_t num = reader_->Reap(done, waits);
    num_open_ -= num;
    return num;
  }
  ReaderStats stats() const override { return reader_->stats(); }
  size_t most_open() const { return most_open_; }

 private:
  std::unique_ptr<BlockReader> reader_;
  size_t num_open_ = 0, most_open_ = 0;
};

Result<std::vector<double>> ReplayedBy(BlockReader& reader, const ReadLog& log,
                                       const ReplayOptions& options) {
  const auto memory = ReplayMemory::For(log, options.depth);
  EXPECT_TRUE(memory.has_value());
  return ReplayReads(reader, log, *memory, options);
}

// Tokens of turns of reads of these bytes, one behind the other.
using Turns = std::vector<std::vector<size_t>>;

struct ReplayRig {
  std::vector<std::byte> file = std::vector<std::byte>(size_t{12} << 20);
  std::shared_ptr<ReadLog> log = std::make_shared<ReadLog>(1000);

  explicit ReplayRig(const std::vector<Turns>& tokens) {
    const auto reader = LogReads(MakeFakeReader({file}, {}), 1, log);
    std::vector<std::byte> memory(file.size());
    size_t offset = 0;
    for (const Turns& turns : tokens) {
      log->BeginToken();
      for (const std::vector<size_t>& turn : turns) {
        std::vector<Read> reads;
        for (const size_t num_bytes : turn) {
          reads.push_back({0, offset, num_bytes, memory.data()});
          offset += num_bytes;
        }
        reader->Submit(reads);
        ReapAll(*reader);
      }
      log->EndToken();
    }
  }

  // What a replay reads, as another log has it.
  std::vector<size_t> Replayed(const ReplayOptions& options,
                               std::vector<size_t>* turns = nullptr) {
    const auto again = std::make_shared<ReadLog>(1000);
    const auto reader = LogReads(MakeFakeReader({file}, {}), 1, again);
    again->BeginToken();
    const auto seconds = ReplayedBy(*reader, *log, options);
    again->EndToken();
    EXPECT_TRUE(seconds) << seconds.error().message;
    std::vector<size_t> sizes;
    uint64_t offset = 0;
    for (const LoggedRead& read : again->reads()) {
      EXPECT_EQ(read.offset, offset);
      offset += read.num_bytes;
      if (read.begins_turn != 0 && turns != nullptr) {
        turns->push_back(sizes.size());
      }
      sizes.push_back(read.num_bytes);
    }
    return sizes;
  }
};

TEST(ReadReplayTest, ReadsTheSameInTheSameOrder) {
  ReplayRig rig({{{512, 4096}, {8192}}, {}, {{100, 7, 4096}}});
  for (const size_t depth : {1, 2, 64}) {
    EXPECT_THAT(rig.Replayed({.depth = depth}),
                ElementsAre(512, 4096, 8192, 100, 7, 4096));
  }
  std::vector<size_t> turns;
  rig.Replayed({.depth = 64, .in_turns = true}, &turns);
  EXPECT_THAT(turns, ElementsAre(0, 2, 3));
  turns.clear();
  rig.Replayed({.depth = 64}, &turns);
  EXPECT_THAT(turns, ElementsAre(0));

  const auto reader = MakeFakeReader({rig.file}, {});
  const auto seconds = ReplayedBy(*reader, *rig.log, {}).value();
  ASSERT_EQ(seconds.size(), 3u);
  EXPECT_GT(seconds[0], 0.0);
  EXPECT_EQ(seconds[1], 0.0);
  EXPECT_THAT(seconds[2], Ge(0.0));
}

TEST(ReadReplayTest, KeepsToItsDepthAndMemory) {
  const std::vector<size_t> small(200, 4096);
  ReplayRig rig({{small}});
  for (const size_t depth : {1, 5, 64}) {
    WatchedReader reader(MakeFakeReader({rig.file}, {}));
    EXPECT_TRUE(ReplayedBy(reader, *rig.log, {.depth = depth}));
    EXPECT_EQ(reader.most_open(), depth);
  }
  // Long ones are cut, and fewer of them are open.
  ReplayRig large({{{size_t{9} << 20}, {size_t{3} << 20}}});
  constexpr size_t kMiB = size_t{1} << 20;
  EXPECT_THAT(large.Replayed({.depth = 64}),
              ElementsAre(4 * kMiB, 4 * kMiB, kMiB, 3 * kMiB));
}

TEST(ReadReplayTest, WhatHasNoRoomIsLeftOut) {
  ReplayRig rig({});
  const auto none = ReplayedBy(*MakeFakeReader({rig.file}, {}), *rig.log, {});
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  ReplayRig full({{std::vector<size_t>(600, 512)},
                  {std::vector<size_t>(600, 512)},
                  {{512}}});
  EXPECT_EQ(full.Replayed({}).size(), 600u);
  const auto seconds =
      ReplayedBy(*MakeFakeReader({full.file}, {}), *full.log, {});
  EXPECT_EQ(seconds->size(), 1u);
}

TEST(ReadReplayTest, AReadThatFailsIsItsError) {
  ReplayRig rig({{std::vector<size_t>(20, 4096)}});
  const auto reader = MakeFakeReader({rig.file}, {.fail_read = 7});
  const auto seconds = ReplayedBy(*reader, *rig.log, {.depth = 4});
  ASSERT_FALSE(seconds);
  EXPECT_EQ(seconds.error().code, ErrorCode::kIo);
  EXPECT_THAT(seconds.error().message, HasSubstr("cannot read 4096 bytes"));
}

}  // namespace
}  // namespace thermocline::storage
