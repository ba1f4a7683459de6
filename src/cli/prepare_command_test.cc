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

TEST(PrepareCommandTest, UsageErrors) {
  const MainResult neither = RunMain({"prepare", kModel, "-o", "x"});
  EXPECT_EQ(neither.exit_code, 2);
  EXPECT_THAT(neither.err, HasSubstr("--predictors"));
  const MainResult both = RunMain({"prepare", kModel, "-o", "x", "--corpus",
                                   kText, "--predictors", "p.gguf"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("exclude each other"));
}

TEST(PrepareCommandTest, RecordsAndProfileAlone) {
  os::TestFolder folder;
  const std::string output = folder / "out.gguf";
  const MainResult made =
      RunMain({"prepare", kModel, "--corpus", kText, "-o", output,
               "--no-predictor", "-c", "16", "-n", "4096", "-t", "2"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("4096 tokens"));
  EXPECT_THAT(made.out, HasSubstr("wrote " + output));
  const MainResult inspected = RunMain({"inspect", output});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
}

TEST(PrepareCommandTest, ThresholdsOnAReluModel) {
  os::TestFolder folder;
  const MainResult result = RunMain({"prepare", kModel, "--corpus", kText, "-o",
                                     folder / "out.gguf", "--density", "0.5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("need no thresholds"));
}

TEST(PrepareCommandTest, PredictorsThatAreNone) {
  os::TestFolder folder;
  const MainResult result =
      RunMain({"prepare", kModel, "--predictors", kModel + ".no", "-o",
               folder / "out.gguf"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(kModel + ".no"));
}

}  // namespace
}  // namespace thermocline::cli
