#include "storage/read_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "storage/test_reader.h"

namespace thermocline::storage {
namespace {

OpenFile FileOf(size_t num_bytes, size_t alignment) {
  OpenFile file;
  file.num_bytes = num_bytes;
  file.offset_alignment = file.memory_alignment = alignment;
  return file;
}

// Plays a device that gives up to `most` bytes a call; the calls that it took,
// "B" for those to the bounce buffer. -1: it ended early.
struct Steps {
  int num_calls = 0;
  std::string kinds;
  bool is_good = false;
};

Steps PlaySteps(const OpenFile& file, std::span<const std::byte> bytes,
                const Read& read, size_t most) {
  GuardedMemory bounce(kBounceBytes);
  ReadSteps steps(&file, read);
  Steps played;
  while (!steps.is_over()) {
    const bool wants_bounce = steps.wants_bounce();
    const ReadSteps::Call call =
        steps.Next(wants_bounce ? bounce.data() : nullptr);
    ++played.num_calls;
    played.kinds += wants_bounce ? "B" : "d";
    EXPECT_EQ(wants_bounce, call.to == bounce.data());
    EXPECT_EQ(call.offset % file.offset_alignment, 0u);
    EXPECT_EQ(call.num_bytes % file.offset_alignment, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(call.to) % file.memory_alignment, 0u);
    const size_t there =
        bytes.size() - std::min<size_t>(bytes.size(), call.offset);
    const size_t num = std::min({there, call.num_bytes, most});
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(call.offset), num,
                call.to);
    if (!steps.Take(call, num)) return played;
  }
  played.is_good =
      std::equal(read.to, read.to + read.num_bytes,
                 bytes.begin() + static_cast<ptrdiff_t>(read.offset));
  EXPECT_EQ(steps.has_bounced(), played.kinds.find('B') != std::string::npos);
  EXPECT_TRUE(bounce.IsUntouchedAround());
  return played;
}

TEST(ReadStepsTest, CallsAreAlignedAndFew) {
  const std::vector<std::byte> bytes = RandomBytes(1'000'100, 5);
  struct Case {
    size_t alignment, offset, num_bytes, odd, most;
    const char* kinds;
  };
  const Case cases[] = {
      {1, 3, 700'001, 1, SIZE_MAX, "d"},          // no O_DIRECT
      {4096, 4096, 8192, 0, SIZE_MAX, "d"},       // as the device likes it
      {4096, 4097, 10, 0, SIZE_MAX, "B"},         // inside a block
      {4096, 4096, 8192, 8, SIZE_MAX, "B"},       // a bad address
      {4096, 4096, 8193, 0, SIZE_MAX, "B"},       // a short odd end
      {4096, 0, 300'000, 0, SIZE_MAX, "dB"},      // a long one
      {4096, 100, 300'000, 100, SIZE_MAX, "BB"},  // longer than the buffer
      {4096, 100, 900'000, 0, SIZE_MAX, "BBBB"},  // and never at a good address
      {512, 512, 2048, 0, 512, "dddd"},           // short reads
      {512, 0, 2048, 0, 100, ""},                 // that are not even blocks
      {4096, 999'424, 676, 0, SIZE_MAX, "B"},     // the end of the file
  };
  for (const Case& c : cases) {
    GuardedMemory memory(c.num_bytes, c.odd);
    const Read read{0, c.offset, c.num_bytes, memory.data(), 0};
    const Steps played =
        PlaySteps(FileOf(bytes.size(), c.alignment), bytes, read, c.most);
    const std::string name = std::to_string(c.alignment) + " " +
                             std::to_string(c.offset) + " " +
                             std::to_string(c.num_bytes);
    if (c.kinds[0] == '\0') {
      // Progress is what matters: a device that stops inside a block begins it
      // again and gets no further.
      EXPECT_FALSE(played.is_good) << name;
      EXPECT_EQ(played.num_calls, 2) << name;
      continue;
    }
    EXPECT_TRUE(played.is_good) << name;
    EXPECT_EQ(played.kinds, c.kinds) << name;
    EXPECT_TRUE(memory.IsUntouchedAround()) << name;
  }
}

TEST(ReadStepsTest, AFileThatEndsEarlyIsNoticed) {
  const std::vector<std::byte> bytes = RandomBytes(10'000, 6);
  for (const size_t alignment : {size_t{1}, size_t{512}, size_t{4096}}) {
    GuardedMemory memory(8192);
    const Read read{0, 4096, 8192, memory.data(), 0};
    // It had 20'000 when it was opened.
    EXPECT_FALSE(
        PlaySteps(FileOf(20'000, alignment), bytes, read, SIZE_MAX).is_good);
    EXPECT_TRUE(memory.IsUntouchedAround());
  }
}

}  // namespace
}  // namespace thermocline::storage
