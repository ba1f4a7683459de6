#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <string>
#include <thread>

#include "os/test_folder.h"
#include "storage/system_readers.h"
#include "storage/test_reader.h"
#include "storage/test_refused_calls.h"

namespace thermocline::storage {
namespace {

using ::testing::HasSubstr;

// Where it is refused files are read by threads, and asked for by name it says
// why.
TEST(UringReaderTest, FallsBackWhereItIsRefused) {
  const os::TestFolder folder;
  const std::string path = folder.Write("file", std::string(5000, 'x'));
  if (!OpenReaderNamed("io_uring", {path}, {}).has_value()) {
    GTEST_SKIP() << "no io_uring: the test of readers is of threads anyway";
  }
  const std::pair<int, const char*> cases[] = {
      {ENOSYS, "the kernel has none"},
      {EPERM, "kernel.io_uring_disabled"},
      {ENOMEM, "ulimit -l"},
      {EMFILE, "io_uring: Too many open files"}};
  for (const auto& [error_number, why] : cases) {
    bool is_hidden = false;
    std::thread([&, error = error_number, reason = why] {
      is_hidden = RefuseCalls(SYS_io_uring_setup, {}, error);
      if (!is_hidden) return;
      const auto named = OpenReaderNamed("io_uring", {path}, {});
      ASSERT_FALSE(named.has_value());
      EXPECT_EQ(named.error().code, error == ENOMEM
                                        ? ErrorCode::kResourceExhausted
                                        : ErrorCode::kUnsupported);
      EXPECT_THAT(named.error().message, HasSubstr(reason));
      const auto reader = OpenReader({path}, {});
      ASSERT_TRUE(reader.has_value());
      EXPECT_EQ((*reader)->name(), "pread");
      std::vector<std::byte> memory(5000);
      EXPECT_TRUE(ReadNow(**reader, {0, 0, 5000, memory.data(), 1}));
      EXPECT_EQ(memory[4999], std::byte{'x'});
    }).join();
    if (!is_hidden) GTEST_SKIP() << "no seccomp";
  }
}

// The kernel cancels what a thread has not got yet when that ends.
TEST(UringReaderTest, ThreadsMayEndBeforeTheirReads) {
  const os::TestFolder folder;
  const std::vector<std::byte> bytes = RandomBytes(64 * 4096, 3);
  const std::string path = folder / "file";
  WriteBytes(path, bytes);
  for (const bool direct : {true, false}) {
    const auto reader =
        OpenReaderNamed("io_uring", {path}, {.depth = 64, .direct = direct});
    if (!reader.has_value()) GTEST_SKIP() << reader.error().message;
    GuardedMemory memory(bytes.size());
    std::thread([&] {
      std::vector<Read> reads;
      for (size_t i = 0; i < 64; ++i) {
        reads.push_back({0, i * 4096, 4096, memory.data() + i * 4096, i});
      }
      (*reader)->Submit(reads);
    }).join();
    for (const Done& done : ReapAll(**reader)) {
      EXPECT_TRUE(done.status.has_value()) << done.status.error().message;
    }
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), memory.data()));
  }
}

// More reads that bounce than there are buffers.
TEST(UringReaderTest, WhoBouncesWaitsForABuffer) {
  const os::TestFolder folder;
  const std::vector<std::byte> bytes = RandomBytes(300'000, 3);
  const std::string path = folder / "file";
  WriteBytes(path, bytes);
  const auto reader = OpenReaderNamed("io_uring", {path}, {.depth = 100});
  if (!reader.has_value()) GTEST_SKIP() << reader.error().message;
  if ((*reader)->alignment() == 1) {
    GTEST_SKIP() << "no O_DIRECT in " << folder.path();
  }
  std::vector<GuardedMemory> memory(100, GuardedMemory(3000));
  std::vector<Read> reads;
  for (size_t i = 0; i < 100; ++i) {
    reads.push_back({0, i * 2900 + 1, 3000, memory[i].data(), i});
  }
  (*reader)->Submit(reads);
  EXPECT_EQ(ReapAll(**reader).size(), 100u);
  EXPECT_EQ((*reader)->stats().num_bounced, 100u);
  for (const Read& read : reads) {
    EXPECT_TRUE(
        std::equal(read.to, read.to + read.num_bytes,
                   bytes.begin() + static_cast<ptrdiff_t>(read.offset)));
  }
}

}  // namespace
}  // namespace thermocline::storage
