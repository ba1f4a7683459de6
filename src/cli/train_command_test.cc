#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test_main.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

const std::string kRoot = TC_SOURCE_DIR;
const std::string kModel =
    kRoot + "/models/demo/thermocline-demo-8.8m-f16.gguf";
const std::string kText = kRoot + "/testdata/demo/valid.txt";

TEST(TrainCommandTest, UsageErrors) {
  EXPECT_EQ(RunMain({"train", kModel, "-o", "x"}).exit_code, 2);
  EXPECT_EQ(RunMain({"train", "--corpus", kText, "-o", "x"}).exit_code, 2);
  EXPECT_EQ(
      RunMain({"train", kModel, "-m", kModel, "--corpus", kText, "-o", "x"})
          .exit_code,
      2);
  const MainResult ahead = RunMain(
      {"train", kModel, "--corpus", kText, "-o", "x", "--lookahead", "2"});
  EXPECT_EQ(ahead.exit_code, 2);
  EXPECT_THAT(ahead.err, HasSubstr("--lookahead"));
}

TEST(TrainCommandTest, RefusesToReplaceWhatItReads) {
  for (const std::string& input : {kModel, kText}) {
    const MainResult result =
        RunMain({"train", kModel, "--corpus", kText, "-o", input});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(input));
  }
}

TEST(TrainCommandTest, ATextThatIsTooShort) {
  os::TestFolder folder;
  const std::string text = folder.Write("story.txt", "Once upon a time.");
  const MainResult result =
      RunMain({"train", kModel, "--corpus", text, "-o", folder / "out.gguf"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("too few to learn from"));
}

}  // namespace
}  // namespace thermocline::cli
