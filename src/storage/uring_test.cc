// Memory that a ring knows, seen through the reader: the ring itself is there
// only where liburing is.
#include "storage/uring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "base/units.h"
#include "os/memory.h"
#include "os/memory_policy.h"
#include "os/test_folder.h"
#include "os/test_lock_limit.h"
#include "storage/block_reader.h"
#include "storage/test_reader.h"
#include "storage/test_refused_calls.h"

namespace thermocline::storage {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr size_t kPage = 4096;
constexpr size_t kFilePages = 64;
// IORING_REGISTER_BUFFERS, the second argument of io_uring_register.
constexpr uint32_t kRegisterBuffers = 0;

class UringMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteBytes(path_, bytes_);
    const auto reader = OpenReaderNamed("io_uring", {path_}, {});
    if (!reader.has_value()) GTEST_SKIP() << reader.error().message;
    if ((*reader)->alignment() == 1) {
      GTEST_SKIP() << "no O_DIRECT in " << folder_.path();
    }
  }

  std::unique_ptr<BlockReader> Open() const {
    return OpenReaderNamed("io_uring", {path_}, {.depth = 4}).value();
  }
  std::byte* page(size_t idx) const { return memory_.data() + idx * kPage; }
  std::span<std::byte> pages(size_t begin, size_t num) const {
    return {page(begin), num * kPage};
  }

  // Reads pages of the file to those of memory; whether their bytes are right.
  bool ReadsRight(BlockReader& reader, uint64_t offset, size_t num_bytes,
                  std::byte* to) const {
    std::memset(memory_.data(), 0x5c, memory_.size());
    const Status status = ReadNow(reader, {0, offset, num_bytes, to, 1});
    EXPECT_TRUE(status.has_value()) << status.error().message;
    return std::memcmp(to, bytes_.data() + offset, num_bytes) == 0 &&
           (to == memory_.data() || *(to - 1) == std::byte{0x5c}) &&
           *(to + num_bytes) == std::byte{0x5c};
  }

  const os::TestFolder folder_;
  const std::string path_ = folder_ / "file";
  const std::vector<std::byte> bytes_ = RandomBytes(kFilePages * kPage, 3);
  const os::AlignedBuffer memory_ =
      os::AlignedBuffer::Allocate(size_t{1} << 20).value();
};

// What lies in registered memory goes there straight, all else as ever.
TEST_F(UringMemoryTest, TheSameBytes) {
  const auto reader = Open();
  const std::span<std::byte> ranges[] = {pages(8, 8), pages(32, 32)};
  reader->RegisterMemory(ranges);
  if (!reader->Describe().ends_with(", registered buffers")) {
    GTEST_SKIP() << reader->Describe();
  }
  struct Case {
    size_t to, num_pages;  // pages of memory
    bool is_registered;
  };
  for (const auto& [to, num_pages, is_registered] :
       {Case{8, 8, true}, Case{8, 1, true}, Case{15, 1, true},
        Case{32, 32, true}, Case{40, 5, true}, Case{0, 8, false},
        Case{7, 1, false}, Case{16, 1, false}, Case{100, 3, false},
        // Over an edge, and from one range to the other.
        Case{7, 2, false}, Case{15, 2, false}, Case{63, 2, false},
        Case{8, 40, false}}) {
    const uint64_t before = reader->stats().num_registered;
    EXPECT_TRUE(ReadsRight(*reader, kPage * (kFilePages - num_pages),
                           num_pages * kPage, page(to)))
        << to << " " << num_pages;
    EXPECT_EQ(reader->stats().num_registered - before, is_registered ? 1 : 0)
        << to << " " << num_pages;
  }
  // Odd ones go by way of the reader's memory.
  const uint64_t before = reader->stats().num_registered;
  EXPECT_TRUE(ReadsRight(*reader, 17, kPage, page(8)));
  EXPECT_EQ(reader->stats().num_registered, before);
  EXPECT_EQ(reader->stats().num_bounced, 1u);
}

// More reads at once than the ring takes, half of them to registered memory.
TEST_F(UringMemoryTest, ManyAtOnce) {
  const auto reader = Open();
  const std::span<std::byte> ranges[] = {pages(0, kFilePages / 2)};
  reader->RegisterMemory(ranges);
  std::vector<Read> reads;
  for (size_t i = 0; i < kFilePages; ++i) {
    reads.push_back({0, i * kPage, kPage, page(i), i});
  }
  reader->Submit(reads);
  EXPECT_EQ(ReapAll(*reader).size(), kFilePages);
  EXPECT_TRUE(std::equal(bytes_.begin(), bytes_.end(), memory_.data()));
}

TEST_F(UringMemoryTest, WhatIsRefusedIsReadAsEver) {
  const auto expect_plain = [&](const std::string& why) {
    const auto reader = Open();
    const std::span<std::byte> ranges[] = {pages(0, 64)};
    reader->RegisterMemory(ranges);
    EXPECT_THAT(reader->Describe(),
                EndsWith("io_uring, O_DIRECT, buffers not registered: " + why));
    EXPECT_TRUE(ReadsRight(*reader, kPage, kPage, page(3)));
    EXPECT_EQ(reader->stats().num_registered, 0u);
  };
  {
    const os::LowLimit limit(64 * kKiB);
    expect_plain("RLIMIT_MEMLOCK 64.00 KiB");
  }
  for (const auto& [error_number, why] :
       {std::pair{EPERM, "Operation not permitted"},
        {EOPNOTSUPP, "Operation not supported"},
        {EFAULT, "Bad address"}}) {
    bool is_refused = false;
    std::thread([&, error = error_number, reason = why] {
      is_refused = RefuseCalls(SYS_io_uring_register, kRegisterBuffers, error);
      if (is_refused) expect_plain(reason);
    }).join();
    if (!is_refused) GTEST_SKIP() << "no seccomp";
  }
}

// Where the process seems to be allowed as much, but the kernel counts more.
TEST_F(UringMemoryTest, TheLimitIsNamedWhereTheKernelFindsIt) {
  bool is_refused = false;
  std::thread([&] {
    is_refused = RefuseCalls(SYS_io_uring_register, kRegisterBuffers, ENOMEM);
    if (!is_refused) return;
    const auto reader = Open();
    const std::span<std::byte> ranges[] = {pages(0, 1)};
    reader->RegisterMemory(ranges);
    EXPECT_THAT(reader->Describe(), HasSubstr("buffers not registered: "));
    const os::LockLimit limit = os::ReadLockLimit();
    EXPECT_THAT(reader->Describe(),
                HasSubstr(limit.num_bytes ? "RLIMIT_MEMLOCK " +
                                                FormatBytes(*limit.num_bytes)
                                          : "Cannot allocate memory"));
  }).join();
  if (!is_refused) GTEST_SKIP() << "no seccomp";
}

// Through the page cache nothing would be gained.
TEST_F(UringMemoryTest, IsNotRegisteredForCachedFiles) {
  const auto reader =
      OpenReaderNamed("io_uring", {path_}, {.depth = 4, .direct = false})
          .value();
  const std::span<std::byte> ranges[] = {pages(0, 64)};
  reader->RegisterMemory(ranges);
  EXPECT_EQ(reader->Describe(), "io_uring");
  EXPECT_TRUE(ReadsRight(*reader, kPage, kPage, page(3)));
  EXPECT_EQ(reader->stats().num_registered, 0u);
}

TEST_F(UringMemoryTest, IsToldBeforeReads) {
  const auto reader = Open();
  const std::span<std::byte> ranges[] = {pages(0, 64)};
  reader->RegisterMemory(ranges);
  EXPECT_DEATH(reader->RegisterMemory(ranges), "");
}

}  // namespace
}  // namespace thermocline::storage
