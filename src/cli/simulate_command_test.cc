#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/test_main.h"
#include "neuron/trace.h"
#include "os/file.h"
#include "os/test_folder.h"
#include "residency/compare.h"

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
  const MainResult result = Run({"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto policies = nlohmann::json::parse(result.out)["policies"];
  const size_t num_names =
      residency::Policies().size() + residency::Bounds().size();
  ASSERT_EQ(policies.size(), 3 * num_names);
  EXPECT_EQ(policies[0]["name"], "static");
  EXPECT_EQ(policies.back()["name"], "belady");
  EXPECT_EQ(policies.back()["share"], 0.5);
}

TEST_F(SimulateCommandTest, RunsWhatIsNamed) {
  const MainResult result =
      Run({"--policy", "slow:half-life=8,margin=0.1,belady", "--policy", "lru",
           "--share", "0.25"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* row :
       {"| slow:half-life=8,margin=0.1 |  50.00 |",
        "| belady        | 100.00 |", "| lru           |  50.00 |"}) {
    EXPECT_THAT(result.out, HasSubstr(row));
  }
}

TEST_F(SimulateCommandTest, WritesAPage) {
  const std::string page = folder_ / "s.html";
  const MainResult result = Run({"--policy", "lru", "--html", page});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto html = os::ReadFile(page);
  ASSERT_TRUE(html);
  EXPECT_THAT(*html, HasSubstr("Hits by room"));
  EXPECT_EQ(Run({"--html", path_}).exit_code, 1) << "the trace is kept";
}

TEST_F(SimulateCommandTest, RefusalsNameWhatIsWrong) {
  const struct {
    std::vector<std::string> args;
    int exit_code;
    const char* message;
  } rows[] = {
      {{"--policy", "fifo"}, 2, "'fifo' is not one of all, static, lru"},
      {{"--policy", "lru,"}, 2, "'' is not one of"},
      {{"--policy", "momentum:lambda=x"}, 2, "lambda"},
      {{"--policy", "belady:x=1"}, 2, "belady"},
      {{"--policy", "lru,lambda=1"}, 2, "'lru,lambda=1' is not one of"},
      {{"--share", "0.5,2"}, 2, "--share"},
      {{"--share", "0.5", "--tier-bytes", "1MiB"}, 2, "--tier-bytes"},
      {{"--misses", "ignored"}, 2, "'ignored' is not one of read, computed"},
      {{"--groups", "lucky"}, 2, "is not one of greedy, metis"},
      {{"--groups", "greedy"}, 2, "--group-size"},
      {{"--group-size", "2", "--groups-from", path_}, 2, "--groups"},
      {{"--split", path_, "--unit", "experts"}, 2, "--unit"},
      {{"--tier-bytes", "1MiB,0"}, 2, "no room in 0 bytes"},
      {{"--tier-bytes", "1MiB"}, 1, "record it again"},
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
