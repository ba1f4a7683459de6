#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// With few bytes to read: their speed is not what is tested.
MainResult RunRoof(std::vector<std::string> args) {
  args.insert(args.begin(), {"bench", "roof", "--read-size", "4MiB"});
  return RunMain(args);
}

TEST(BenchRoofCommandTest, SaysWhatAModelCouldReach) {
  const std::string model = kLlamaQ4_0;
  const MainResult result = RunRoof({"-t", "1", "-m", model});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(StartsWith("Sequential reads of "), HasSubstr("| Q4_0 "),
                    Not(HasSubstr("| Q5_K ")), HasSubstr(model),
                    HasSubstr("build: thermocline " TC_VERSION)));
}

TEST(BenchRoofCommandTest, NeedsNoModel) {
  const MainResult result = RunRoof({"--reads-only", "-t", "1", "-o", "csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("what,type,n_threads,n_tokens,value,unit\n"
                                     "read,,1,,"));
  EXPECT_THAT(result.out, Not(HasSubstr("product")));
}

TEST(BenchRoofCommandTest, ReadsAloneTellWhatMemoryAllowsAModel) {
  const MainResult json =
      RunRoof({"--reads-only", "-t", "1", "-m", kLlamaQ4_0, "-o", "json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_THAT(json.out, HasSubstr("\"model_filename\": \"" + kLlamaQ4_0));
  EXPECT_THAT(json.out, HasSubstr("\"memory_ts\": "));
  EXPECT_THAT(json.out, HasSubstr("\"arithmetic_ts\": null"));
}

TEST(BenchRoofCommandTest, ReadsRowsApart) {
  const MainResult result =
      RunRoof({"--reads-only", "-t", "1", "-m", kLlamaQ4_0, "--rows", "1152"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nRows of 1152 bytes apart, one in 6:\n"));
  const MainResult odd =
      RunMain({"bench", "roof", "--reads-only", "-t", "1", "--rows", "1000"});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_THAT(odd.err, HasSubstr("--rows: 1000 is no multiple of 64"));
  EXPECT_EQ(RunMain({"bench", "roof", "--rows", "0"}).exit_code, 2);
}

TEST(BenchRoofCommandTest, FlagsInFrontAreRefused) {
  for (const auto& [flag, value] :
       {std::pair{"-t", "2"}, {"-m", "absent.gguf"}, {"-ctk", "f16"}}) {
    const MainResult result = RunMain({"bench", flag, value, "roof"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("in front of roof")) << flag;
    EXPECT_THAT(result.err, HasSubstr(flag));
  }
}

TEST(BenchRoofCommandTest, NoThreadsAreOnePerCore) {
  const MainResult result = RunRoof({"--reads-only", "-t", "0", "-o", "csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nread,,"));
  EXPECT_THAT(result.out, Not(HasSubstr("\nread,,0,,")));
}

TEST(BenchRoofCommandTest, RefusesWrongUsage) {
  EXPECT_EQ(RunMain({"bench"}).exit_code, 2);
  const MainResult isa = RunMain({"bench", "roof", "--isa", "sse9"});
  EXPECT_EQ(isa.exit_code, 2);
  EXPECT_THAT(isa.err, HasSubstr("sse9"));
  const MainResult little = RunMain({"bench", "roof", "--read-size", "4KiB"});
  EXPECT_EQ(little.exit_code, 2);
  EXPECT_THAT(little.err, HasSubstr("'4KiB' is less than 1MiB"));
  const MainResult missing =
      RunMain({"bench", "roof", "-t", "1", "-m", "absent.gguf"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("absent.gguf"));
}

}  // namespace
}  // namespace thermocline::cli
