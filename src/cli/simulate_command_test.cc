#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/test_main.h"
#include "neuron/trace.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

class SimulateCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = neuron::TraceWriter::Create(path_, {1, 8, {}, 0, "m"});
    ASSERT_TRUE(writer) << writer.error().message;
    const neuron::TraceToken token = {.begins_sequence = true};
    (*writer)->AddTokens({&token, 1});
    (*writer)->AddSet(0, std::vector<uint32_t>{1, 6});
    ASSERT_TRUE((*writer)->Flush());
    ASSERT_TRUE((*writer)->Finish());
  }

  MainResult Run(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"simulate", path_};
    args.insert(args.end(), more.begin(), more.end());
    return RunMain(args);
  }

  os::TestFolder folder_;
  std::string path_ = folder_ / "m.trace";
};

TEST_F(SimulateCommandTest, RunsAllByDefault) {
  const MainResult result = Run({"-o", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["cases"].size(), 24u);
  EXPECT_EQ(json["cases"][0]["policy"], "static");
  EXPECT_EQ(json["cases"][23]["policy"], "belady");
  EXPECT_EQ(json["cases"][23]["share"], 0.5);
}

TEST_F(SimulateCommandTest, RunsWhatIsNamed) {
  const MainResult result =
      Run({"--policy", "slow,belady", "--policy", "lru", "--share", "0.25"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("|      25 | slow          |  50.00 |"));
  EXPECT_THAT(result.out, HasSubstr("|      25 | belady        | 100.00 |"));
  EXPECT_THAT(result.out, HasSubstr("|      25 | lru           |  50.00 |"));
}

TEST_F(SimulateCommandTest, RefusalsNameWhatIsWrong) {
  const struct {
    std::vector<std::string> args;
    int exit_code;
    const char* message;
  } rows[] = {
      {{"--policy", "fifo"}, 2, "'fifo' is not one of all, static, lru"},
      {{"--policy", "lru,"}, 2, "'' is not one of"},
      {{"--share", "0.5,2"}, 2, "--share"},
      {{"-o", "csv"}, 2, "'csv' is not one of md, json"},
      {{"--counts", "/no/profile"}, 1, "/no/profile"},
  };
  for (const auto& row : rows) {
    const MainResult result = Run(row.args);
    EXPECT_EQ(result.exit_code, row.exit_code) << row.message;
    EXPECT_THAT(result.err, HasSubstr(row.message));
  }
  EXPECT_EQ(RunMain({"simulate"}).exit_code, 2);
  EXPECT_EQ(RunMain({"simulate", folder_ / "none"}).exit_code, 1);
}

}  // namespace
}  // namespace thermocline::cli
