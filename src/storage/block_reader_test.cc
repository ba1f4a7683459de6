#include "storage/block_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "os/test_folder.h"
#include "storage/test_reader.h"

namespace thermocline::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What every reader promises, of every kind of file.
struct Subject {
  const char* reader;
  const char* folder;  // null: the tests'
  bool direct;
};

std::string NameOf(const ::testing::TestParamInfo<Subject>& info) {
  std::string name = info.param.reader;
  if (name == "fake") return name;
  name += info.param.folder == nullptr ? "Disk" : "Memory";
  return name + (info.param.direct ? "Direct" : "Cached");
}

constexpr size_t kSmallBytes = 300'007;
constexpr size_t kLargeBytes = (size_t{1} << 20) + 4096 + 13;

class BlockReaderTest : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    files_ = {RandomBytes(kSmallBytes, 1),
              RandomBytes(kLargeBytes, 2),
              RandomBytes(8192, 3),
              {}};
    if (is_fake()) return;
    if (GetParam().folder != nullptr) {
      if (access(GetParam().folder, W_OK) != 0) {
        GTEST_SKIP() << "no " << GetParam().folder << " to write to";
      }
      memory_folder_ = std::string(GetParam().folder) + "/tc_storage_test_" +
                       std::to_string(getpid());
      std::filesystem::create_directories(memory_folder_);
    }
    for (size_t i = 0; i < files_.size(); ++i) {
      const std::string name = "file" + std::to_string(i);
      paths_.push_back(memory_folder_.empty() ? disk_folder_ / name
                                              : memory_folder_ + "/" + name);
      WriteBytes(paths_.back(), files_[i]);
    }
    auto probe = Open(1);
    if (!probe.has_value()) GTEST_SKIP() << probe.error().message;
    if (GetParam().direct && GetParam().folder == nullptr &&
        (*probe)->alignment() == 1) {
      GTEST_SKIP() << "no O_DIRECT in " << disk_folder_.path();
    }
  }
  void TearDown() override {
    if (!memory_folder_.empty()) std::filesystem::remove_all(memory_folder_);
  }

  bool is_fake() const { return std::string_view(GetParam().reader) == "fake"; }

  Result<std::unique_ptr<BlockReader>> Open(size_t depth) const {
    if (!is_fake()) {
      return OpenReaderNamed(GetParam().reader, paths_,
                             {.depth = depth, .direct = GetParam().direct});
    }
    return MakeFakeReader({files_.begin(), files_.end()},
                          {.seed = depth, .short_share = 0.3});
  }
  std::unique_ptr<BlockReader> Make(size_t depth = 8) const {
    auto reader = Open(depth);
    EXPECT_TRUE(reader.has_value()) << reader.error().message;
    return std::move(reader).value();
  }

  void ExpectBytes(const Read& read, std::span<const std::byte> bytes) const {
    const std::vector<std::byte>& file = files_[read.file_idx];
    ASSERT_EQ(bytes.size(), read.num_bytes);
    EXPECT_TRUE(read.num_bytes == 0 ||
                std::memcmp(bytes.data(), file.data() + read.offset,
                            read.num_bytes) == 0)
        << read.num_bytes << " bytes at " << read.offset << " of file "
        << read.file_idx;
  }

  os::TestFolder disk_folder_;
  std::string memory_folder_;
  std::vector<std::vector<std::byte>> files_;
  std::vector<std::string> paths_;
};

TEST_P(BlockReaderTest, SaysWhatItIs) {
  const auto reader = Make();
  EXPECT_EQ(reader->name(), GetParam().reader);
  EXPECT_EQ(reader->file_bytes(0), kSmallBytes);
  EXPECT_EQ(reader->file_bytes(3), 0u);
  EXPECT_TRUE(reader->CheckUnchanged().has_value());
  if (!GetParam().direct || GetParam().folder != nullptr) {
    EXPECT_EQ(reader->alignment(), 1u);
  } else {
    EXPECT_GE(reader->alignment(), 512u);
  }
}

// Any offset, size and address; and nothing beside what was asked for.
TEST_P(BlockReaderTest, OddOffsetsSizesAndAddresses) {
  const auto reader = Make();
  const size_t offsets[] = {0, 1, 511, 512, 4095, 4096, 8193, 200'000};
  const size_t sizes[] = {1, 2, 511, 512, 4096, 4097, 65'536, 99'999};
  for (const size_t odd : {0, 1, 64}) {
    for (const size_t offset : offsets) {
      for (const size_t num_bytes : sizes) {
        GuardedMemory memory(num_bytes, odd);
        const Read read{0, offset, num_bytes, memory.data(), 1};
        ASSERT_TRUE(ReadNow(*reader, read).has_value());
        ExpectBytes(read, memory.bytes());
        EXPECT_TRUE(memory.IsUntouchedAround()) << offset << " " << num_bytes;
      }
    }
  }
  // Longer than a bounce buffer.
  for (const auto& [offset, odd] :
       {std::pair{0, 0}, {4096, 0}, {5, 0}, {0, 3}}) {
    GuardedMemory memory(kLargeBytes - 4099, odd);
    const Read read{1, static_cast<uint64_t>(offset), kLargeBytes - 4099,
                    memory.data(), 1};
    ASSERT_TRUE(ReadNow(*reader, read).has_value());
    ExpectBytes(read, memory.bytes());
    EXPECT_TRUE(memory.IsUntouchedAround());
  }
}

TEST_P(BlockReaderTest, CountsWhatItReads) {
  const auto reader = Make();
  GuardedMemory memory(8192);
  std::vector<Read> reads = {{2, 0, 8192, memory.data(), 1},
                             {2, 4096, 4096, memory.data(), 2},
                             {2, 1, 100, memory.data(), 3}};
  for (const Read& read : reads) {
    EXPECT_TRUE(ReadNow(*reader, read).has_value());
  }
  const ReaderStats stats = reader->stats();
  EXPECT_EQ(stats.num_reads, 3u);
  EXPECT_EQ(stats.num_bytes, 8192u + 4096 + 100);
  EXPECT_EQ(stats.num_bounced, reader->alignment() > 1 ? 1u : 0u);
}

TEST_P(BlockReaderTest, ReadsOfNothing) {
  const auto reader = Make();
  std::vector<Done> done(3);
  EXPECT_EQ(reader->Reap(done, true), 0u);
  EXPECT_EQ(reader->Reap(done, false), 0u);
  reader->Submit({});
  EXPECT_EQ(reader->Reap(done, true), 0u);
  const std::vector<Read> reads = {{0, 17, 0, nullptr, 5},
                                   {3, 0, 0, nullptr, 6}};
  reader->Submit(reads);
  EXPECT_EQ(reader->Reap({}, true), 0u);
  const std::vector<Done> all = ReapAll(*reader);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].tag + all[1].tag, 11u);
  EXPECT_TRUE(all[0].status.has_value() && all[1].status.has_value());
}

TEST_P(BlockReaderTest, TheEndOfAFile) {
  const auto reader = Make();
  GuardedMemory memory(10'000);
  for (const size_t num_bytes : {1, 7, 5000}) {
    const Read last{0, kSmallBytes - num_bytes, num_bytes, memory.data(), 1};
    ASSERT_TRUE(ReadNow(*reader, last).has_value());
    ExpectBytes(last, memory.bytes().first(num_bytes));
  }
  const Read beyond[] = {{0, kSmallBytes - 1, 2, memory.data(), 1},
                         {0, kSmallBytes, 1, memory.data(), 1},
                         {0, kSmallBytes + 5, 0, nullptr, 1},
                         {0, UINT64_MAX, 4096, memory.data(), 1},
                         {0, UINT64_MAX - 4096, 8192, memory.data(), 1},
                         {3, 0, 1, memory.data(), 1}};
  for (const Read& read : beyond) {
    const Status status = ReadNow(*reader, read);
    ASSERT_FALSE(status.has_value()) << read.offset;
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    const std::string path = is_fake() ? "file" : paths_[read.file_idx];
    EXPECT_THAT(status.error().message,
                AllOf(HasSubstr(path), HasSubstr("ends"),
                      HasSubstr(std::to_string(read.offset))));
  }
  EXPECT_TRUE(memory.IsUntouchedAround());
}

// Bits of a draw, read to memory of their own.
std::vector<Read> DrawReads(Random& random, size_t num, std::byte* to,
                            size_t each_max, uint64_t first_tag) {
  std::vector<Read> reads;
  for (size_t i = 0; i < num; ++i) {
    Read read{.file_idx = static_cast<uint32_t>(random.Below(2))};
    const size_t file_bytes = read.file_idx == 0 ? kSmallBytes : kLargeBytes;
    read.num_bytes = random.Below(each_max + 1);
    read.offset = random.Below(file_bytes - read.num_bytes);
    if (random.Below(2) == 0) {
      read.offset = read.offset / 4096 * 4096;
      read.num_bytes = read.num_bytes / 4096 * 4096;
    }
    read.to = to + i * each_max;
    read.tag = first_tag + i;
    reads.push_back(read);
  }
  return reads;
}

// Submits the reads in batches and reaps whatever is over, whoever's it is.
void SubmitAndReap(BlockReader& reader, std::span<const Read> reads, bool waits,
                   std::span<std::atomic<int>> num_seen) {
  constexpr size_t kBatch = 50;
  std::vector<Done> done(9);
  const auto reap = [&](bool reap_waits) {
    const size_t num = reader.Reap(done, reap_waits);
    for (size_t i = 0; i < num; ++i) {
      EXPECT_TRUE(done[i].status.has_value());
      ++num_seen[done[i].tag];
    }
    return num;
  };
  for (size_t i = 0; i < reads.size(); i += kBatch) {
    reader.Submit(reads.subspan(i, kBatch));
    reap(waits);
  }
  while (reap(true) > 0) {
  }
}

TEST_P(BlockReaderTest, ThousandsOfReadsFromSeveralThreads) {
  constexpr size_t kThreads = 4, kReads = 300, kEachMax = 8192;
  for (const size_t depth : {1, 32}) {
    const auto reader = Make(depth);
    GuardedMemory memory(kThreads * kReads * kEachMax);
    Random random(depth);
    const std::vector<Read> reads =
        DrawReads(random, kThreads * kReads, memory.data(), kEachMax, 0);
    std::vector<std::atomic<int>> num_seen(reads.size());
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        SubmitAndReap(*reader, std::span(reads).subspan(t * kReads, kReads),
                      t % 2 == 0, num_seen);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Read& read : reads) {
      EXPECT_EQ(num_seen[read.tag], 1);
      ExpectBytes(read, {read.to, read.num_bytes});
    }
    EXPECT_EQ(reader->stats().num_reads, reads.size());
    EXPECT_TRUE(memory.IsUntouchedAround());
  }
}

// Threads that wait while another one submits and reaps: none is left behind.
TEST_P(BlockReaderTest, WhoWaitsForTheLastReadIsLetGo) {
  const auto reader = Make(4);
  GuardedMemory memory(8 * 4096);
  std::atomic<size_t> num_reaped{0};
  for (int round = 0; round < 20; ++round) {
    Random random(static_cast<uint64_t>(round));
    const std::vector<Read> reads =
        DrawReads(random, 8, memory.data(), 4096, 0);
    reader->Submit(reads);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] { num_reaped += ReapAll(*reader, 2).size(); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(num_reaped.exchange(0), 8u);
  }
}

// Nobody writes to the memory afterwards (asan and tsan would see it).
TEST_P(BlockReaderTest, EndsWithReadsInFlight) {
  for (int round = 0; round < 10; ++round) {
    auto reader = Make(round % 2 == 0 ? 2 : 32);
    auto memory = std::make_unique<GuardedMemory>(100 * 8192);
    Random random(static_cast<uint64_t>(round));
    reader->Submit(DrawReads(random, 100, memory->data(), 8192, 0));
    std::vector<Done> done(3);
    if (round % 3 == 0) reader->Reap(done, true);
    reader.reset();
    memory.reset();
  }
}

TEST_P(BlockReaderTest, AFileThatIsCutShort) {
  if (is_fake()) return;
  const auto reader = Make();
  std::filesystem::resize_file(paths_[0], 5000);
  GuardedMemory memory(8192);
  // What is still there is read.
  const Read there{0, 0, 4096, memory.data(), 1};
  EXPECT_TRUE(ReadNow(*reader, there).has_value());
  for (const uint64_t offset : {uint64_t{4096}, uint64_t{100'000}}) {
    const Status status = ReadNow(*reader, {0, offset, 4096, memory.data(), 1});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message,
                AllOf(HasSubstr(paths_[0]), HasSubstr("was changed")));
  }
  ASSERT_FALSE(reader->CheckUnchanged().has_value());
  EXPECT_THAT(reader->CheckUnchanged().error().message,
              HasSubstr(paths_[0] + ": was changed while it was in use"));
  // The other files are what they were.
  EXPECT_TRUE(ReadNow(*reader, {2, 0, 8192, memory.data(), 1}).has_value());
}

TEST_P(BlockReaderTest, AFileThatIsWrittenOver) {
  if (is_fake()) return;
  const auto reader = Make();
  // A new file under the name: the reader keeps the old one.
  std::filesystem::rename(paths_[2], paths_[2] + ".old");
  WriteBytes(paths_[2], RandomBytes(100, 9));
  EXPECT_TRUE(reader->CheckUnchanged().has_value());
  // The same size, in its place: only the time tells.
  WriteBytes(paths_[2] + ".old", RandomBytes(8192, 9));
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (paths_[2] + ".old").c_str(), times, 0), 0);
  EXPECT_FALSE(reader->CheckUnchanged().has_value());
}

INSTANTIATE_TEST_SUITE_P(Readers, BlockReaderTest,
                         ::testing::Values(Subject{"fake", nullptr, true},
                                           Subject{"pread", nullptr, true},
                                           Subject{"pread", nullptr, false},
                                           Subject{"pread", "/dev/shm", true},
                                           Subject{"io_uring", nullptr, true},
                                           Subject{"io_uring", nullptr, false},
                                           Subject{"io_uring", "/dev/shm",
                                                   true}),
                         NameOf);

TEST(OpenReaderTest, NamesWhatItCannotOpen) {
  const os::TestFolder folder;
  const std::string fifo = folder / "pipe";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string good = folder.Write("good", "x");
  struct Case {
    std::string path;
    ErrorCode code;
    const char* why;
  };
  const Case cases[] = {
      {folder / "missing", ErrorCode::kNotFound, "No such file"},
      {folder.path(), ErrorCode::kIo, "is a folder"},
      {fifo, ErrorCode::kIo, "neither a file nor a block device"}};
  for (const Case& c : cases) {
    const auto reader = OpenReader({good, c.path}, {});
    ASSERT_FALSE(reader.has_value()) << c.path;
    EXPECT_EQ(reader.error().code, c.code);
    EXPECT_THAT(reader.error().message,
                AllOf(HasSubstr(c.path), HasSubstr(c.why)));
  }
}

TEST(OpenReaderTest, RefusesOptionsAndNames) {
  const os::TestFolder folder;
  const std::string good = folder.Write("good", "x");
  for (const size_t depth : {size_t{0}, ReaderOptions::kDepthMax + 1}) {
    const auto reader = OpenReader({good}, {.depth = depth});
    ASSERT_FALSE(reader.has_value());
    EXPECT_EQ(reader.error().code, ErrorCode::kInvalidArgument);
  }
  const auto reader = OpenReaderNamed("aio", {good}, {});
  ASSERT_FALSE(reader.has_value());
  EXPECT_EQ(reader.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(reader.error().message, HasSubstr("\"aio\" is not a reader"));
}

}  // namespace
}  // namespace thermocline::storage
