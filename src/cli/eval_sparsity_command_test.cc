#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

class EvalSparsityCommandTest : public ::testing::Test {
 protected:
  MainResult Run(std::vector<std::string> more) {
    std::vector<std::string> args = {"eval", "sparsity", "-m", kBamboo, "-f",
                                     text_,  "-c",       "32", "-t",    "1"};
    args.insert(args.end(), more.begin(), more.end());
    return RunMain(args);
  }

  os::TestFolder folder_;
  std::string text_ = folder_.Write(
      "text.txt", os::TestFolder::Read(kValidText).substr(0, 300));
};

TEST_F(EvalSparsityCommandTest, TheFilesPredictors) {
  const MainResult text = Run({});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("fast (trained predictors) at "));
  EXPECT_THAT(text.out, HasSubstr("same top token:"));
  EXPECT_THAT(text.err, HasSubstr("base: "));
  const auto json = nlohmann::json::parse(Run({"--json"}).out);
  EXPECT_EQ(json["mode"], "fast");
  EXPECT_LT(json["recall"], 1.0);
  EXPECT_GT(json["divergence"]["kl"], 0.0);
}

TEST_F(EvalSparsityCommandTest, Exact) {
  const auto json =
      nlohmann::json::parse(Run({"--json", "--ffn", "exact"}).out);
  EXPECT_EQ(json["mode"], "exact");
  EXPECT_EQ(json["predictor"], "none");
  EXPECT_EQ(json["recall"], 1.0);
  EXPECT_LT(json["divergence"]["kl"], 1e-8);
}

TEST_F(EvalSparsityCommandTest, SaysWhatIsWrong) {
  EXPECT_THAT(Run({"-c", "512"}).err, HasSubstr("two chunks of 512"));
  EXPECT_EQ(Run({"-c", "3"}).exit_code, 2);
  EXPECT_EQ(Run({"--ffn", "threshold"}).exit_code, 1);
}

}  // namespace
}  // namespace thermocline::cli
