#include "cli/held_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/log.h"
#include "base/units.h"
#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WarnOfLargeMappingTest, OnlyOfWhatIsMappedAndTooLarge) {
  const auto file = gguf::File::Open(kLlamaF16).value();
  const auto said = [&](uint64_t ram_bytes) {
    std::string text;
    SetLogSink([&](LogLevel, std::string_view line) { text += line; });
    WarnOfLargeMapping(*file, ram_bytes);
    SetLogSink({});
    return text;
  };
  EXPECT_EQ(said(file->num_file_bytes()), "");
  EXPECT_THAT(said(file->num_file_bytes() - 1),
              AllOf(HasSubstr(kLlamaF16), HasSubstr("of RAM")));
  ASSERT_TRUE(file->Hold({.read = true}, {}).has_value());
  EXPECT_EQ(said(1), "");
}

TEST(DescribeHeldTest, SaysBoth) {
  EXPECT_EQ(DescribeHeld({}), "mapped");
  EXPECT_EQ(DescribeHeld({.read = true}), "read");
  EXPECT_EQ(DescribeHeld({.read = true, .lock = true}), "read and locked");
  EXPECT_EQ(DescribeHeld({.lock = true}), "mapped and locked");
}

TEST(DescribePagesTest, OfTheMemoryThatTheWeightsAreIn) {
  const auto describe = [](bool read) {
    return DescribePages({.read = read}, 64 * kMiB, {0.996, 0.25});
  };
  EXPECT_EQ(describe(false), ", 25 % in huge pages");
  EXPECT_EQ(describe(true), ", 100 % in huge pages");
}

TEST(DescribePagesTest, SmallFilesAreOfNoConcern) {
  EXPECT_EQ(DescribePages({}, 64 * kMiB - 1, {}), "");
}

}  // namespace
}  // namespace thermocline::cli
