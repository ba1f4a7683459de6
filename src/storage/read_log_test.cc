#include "storage/read_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "storage/test_reader.h"

namespace thermocline::storage {
namespace {

constexpr size_t kLogFile = size_t{1} << 16;

// A logged fake reader of random bytes.
struct LogRig {
  std::vector<std::byte> file = RandomBytes(kLogFile, 3);
  std::vector<std::byte> memory = std::vector<std::byte>(kLogFile);
  std::shared_ptr<ReadLog> log;
  std::unique_ptr<BlockReader> reader;

  explicit LogRig(size_t most_reads = 100)
      : log(std::make_shared<ReadLog>(most_reads)),
        reader(LogReads(MakeFakeReader({file}, {.alignment = 512}), 8, log)) {}

  void Submit(const std::vector<size_t>& offsets) {
    std::vector<Read> reads;
    for (const size_t offset : offsets) {
      reads.push_back({0, offset, 512, memory.data() + offset, offset});
    }
    reader->Submit(reads);
  }
};

TEST(ReadLogTest, NotesWhatTokensRead) {
  LogRig rig;
  rig.Submit({0});  // of no token
  rig.log->BeginToken();
  rig.Submit({512, 1024});  // the first one is still open
  EXPECT_EQ(ReapAll(*rig.reader).size(), 3u);
  rig.Submit({4096});
  rig.Submit({8192});
  EXPECT_EQ(ReapAll(*rig.reader).size(), 2u);
  rig.log->EndToken();
  rig.Submit({0});
  ReapAll(*rig.reader);
  rig.log->BeginToken();
  rig.log->EndToken();

  const std::vector<ReadLog::Token>& tokens = rig.log->tokens();
  ASSERT_EQ(tokens.size(), 2u);
  const struct {
    uint64_t offset;
    unsigned begins_turn;
  } expected[] = {{512, 0}, {1024, 0}, {4096, 1}, {8192, 0}};
  const auto reads = rig.log->reads_of(tokens[0]);
  ASSERT_EQ(reads.size(), std::size(expected));
  for (size_t i = 0; i < reads.size(); ++i) {
    EXPECT_EQ(reads[i].offset, expected[i].offset);
    EXPECT_EQ(reads[i].begins_turn, expected[i].begins_turn) << i;
    EXPECT_EQ(reads[i].num_bytes, 512u);
    EXPECT_EQ(reads[i].file_idx, 0u);
  }
  EXPECT_GT(tokens[0].waited_seconds, 0.0);
  EXPECT_EQ(tokens[1].num_reads, 0u);
  EXPECT_EQ(tokens[1].waited_seconds, 0.0);
  EXPECT_EQ(rig.log->memory_bytes(), 4 * sizeof(LoggedRead));
  rig.log->Clear();
  EXPECT_TRUE(rig.log->tokens().empty());
  EXPECT_TRUE(rig.log->reads().empty());
}

TEST(ReadLogTest, TokensAreNotedWholeOrNotAtAll) {
  LogRig rig(4);
  for (const size_t num_reads : {3, 1, 2, 1}) {
    rig.log->BeginToken();
    for (size_t i = 0; i < num_reads; ++i) rig.Submit({512 * i});
    rig.log->EndToken();
    ReapAll(*rig.reader);
  }
  const std::vector<ReadLog::Token>& tokens = rig.log->tokens();
  ASSERT_EQ(tokens.size(), 4u);
  const struct {
    size_t num_reads;
    bool is_whole;
  } expected[] = {{3, true}, {1, true}, {0, false}, {0, false}};
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i].num_reads, expected[i].num_reads) << i;
    EXPECT_EQ(tokens[i].is_whole, expected[i].is_whole) << i;
  }
  EXPECT_EQ(rig.log->reads().size(), 4u);
}

TEST(ReadLogTest, TheReaderStaysWhatItIs) {
  LogRig rig;
  EXPECT_EQ(rig.log->reader_name(), "fake");
  EXPECT_EQ(rig.log->depth(), 8u);
  EXPECT_EQ(rig.reader->name(), "fake");
  EXPECT_EQ(rig.reader->alignment(), 512u);
  EXPECT_EQ(rig.reader->file_bytes(0), kLogFile);
  EXPECT_TRUE(rig.reader->CheckUnchanged());
  rig.Submit({0, 512});
  ReapAll(*rig.reader);
  EXPECT_EQ(rig.reader->stats().num_reads, 2u);
  EXPECT_TRUE(
      std::equal(rig.file.begin(), rig.file.begin() + 1024, rig.memory.data()));
}

}  // namespace
}  // namespace thermocline::storage
