#include "os/memory_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "base/units.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/test_folder.h"
#include "os/test_lock_limit.h"

namespace thermocline::os {
namespace {

using ::testing::HasSubstr;

// Under the sanitizers munlock does nothing.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kUnlocks = false;
#else
constexpr bool kUnlocks = true;
#endif

TEST(LockMemoryTest, LocksBuffersAndMappings) {
  const TestFolder folder;
  const std::string path = folder.Write("f", std::string(100'000, 'x'));
  const MappedFile file = MappedFile::Open(path).value();
  const AlignedBuffer buffer = AlignedBuffer::Allocate(3'000'000).value();
  const uint64_t before = ReadProcessMemory().locked_bytes;
  std::vector<uint64_t> progress;
  const std::vector<std::span<const std::byte>> pieces = {
      file.bytes(), {}, {buffer.data(), buffer.size()}};
  const Status locked = LockMemory(
      pieces, [&](std::string_view, uint64_t num_done, uint64_t num_total) {
        EXPECT_EQ(num_total, 3'100'000u);
        progress.push_back(num_done);
      });
  ASSERT_TRUE(locked.has_value()) << locked.error().message;
  EXPECT_GE(ReadProcessMemory().locked_bytes, before + 3'100'000 / 1024 * 1024);
  EXPECT_EQ(progress, (std::vector<uint64_t>{100'000, 3'100'000}));
}

TEST(LockMemoryTest, NothingIsFine) { EXPECT_TRUE(LockMemory({}).has_value()); }

TEST(LockMemoryTest, TheLimitIsNamedAndNothingStaysLocked) {
  const AlignedBuffer buffer = AlignedBuffer::Allocate(3'000'000).value();
  const uint64_t before = ReadProcessMemory().locked_bytes;
  const std::span<const std::byte> all(buffer.data(), buffer.size());
  // The first fits, the two together do not.
  const std::vector<std::span<const std::byte>> pieces = {all.first(10'000),
                                                          all.subspan(10'000)};
  const LowLimit limit(64 * kKiB);
  const Status locked = LockMemory(pieces);
  ASSERT_FALSE(locked.has_value());
  EXPECT_EQ(locked.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(locked.error().message, HasSubstr("2.86 MiB"));
  EXPECT_THAT(locked.error().message, HasSubstr("RLIMIT_MEMLOCK is 64.00 KiB"));
  EXPECT_THAT(locked.error().message, HasSubstr("ulimit -l 2930)"));
  if (kUnlocks) EXPECT_EQ(ReadProcessMemory().locked_bytes, before);
}

TEST(LockLimitTest, IsOfTheProcess) {
  const LowLimit limit(64 * kKiB);
  EXPECT_EQ(ReadLockLimit().num_bytes, 64 * kKiB);
  EXPECT_FALSE(ReadLockLimit().is_privileged);
}

TEST(LockMemoryTest, AFileThatShrankIsAnError) {
  const TestFolder folder;
  const std::string path = folder.Write("f", std::string(100'000, 'x'));
  const MappedFile file = MappedFile::Open(path).value();
  ASSERT_EQ(truncate(path.c_str(), 10'000), 0);
  const uint64_t before = ReadProcessMemory().locked_bytes;
  const Status locked = LockMemory({{file.bytes()}});
  ASSERT_FALSE(locked.has_value());
  EXPECT_EQ(locked.error().code, ErrorCode::kIo);
  EXPECT_THAT(locked.error().message, HasSubstr("bytes 0 to 100000 in RAM"));
  if (kUnlocks) EXPECT_EQ(ReadProcessMemory().locked_bytes, before);
}

}  // namespace
}  // namespace thermocline::os
