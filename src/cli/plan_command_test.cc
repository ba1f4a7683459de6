#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

const std::string kPlanMachine =
    std::string(TC_SOURCE_DIR) + "/machines/slow-host.json";

MainResult Plan(const std::string& model, std::vector<std::string> flags) {
  std::vector<std::string> args = {"plan", "-m",        model,
                                   "-c",   "64",        "--device",
                                   "sim",  "--machine", kPlanMachine};
  args.insert(args.end(), flags.begin(), flags.end());
  return RunMain(args);
}

MainResult RunPlanned(const std::string& model,
                      std::vector<std::string> flags) {
  std::vector<std::string> args = {"run", "-m", model, "-p", "Once upon",
                                   "-n",  "8",  "-t",  "1",  "--temp",
                                   "0",   "-c", "64"};
  args.insert(args.end(), flags.begin(), flags.end());
  return RunMain(args);
}

TEST(PlanCommand, SaysWhatLiesWhereAndWhatItTakes) {
  for (const char* solver : {"native", "frequency", "sparse-layers"}) {
    const MainResult plan = Plan(
        kPowerInferLlama, {"--vram", "2MiB", "--explain", "--solver", solver});
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
    EXPECT_THAT(plan.out, HasSubstr(std::string("plan      ") + solver));
    EXPECT_THAT(plan.out, HasSubstr("tokens/s"));
    EXPECT_THAT(plan.out, HasSubstr("| 1 | "));
  }
}

// A plan is carried out, to the byte, and changes no word.
TEST(PlanCommand, WritesWhatRunTakes) {
  const std::string path = TempPath("plan.json");
  const MainResult host = RunPlanned(kPowerInferLlama, {});
  ASSERT_EQ(host.exit_code, 0) << host.err;
  for (const char* solver : {"native", "all-device", "all-host"}) {
    const MainResult plan = Plan(
        kPowerInferLlama, {"--vram", "4MiB", "--solver", solver, "-o", path});
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
    const MainResult run = RunPlanned(
        kPowerInferLlama, {"--device", "sim", "--machine", kPlanMachine,
                           "--vram", "4MiB", "--plan", path});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, host.out);
    const std::string line =
        plan.out.substr(0, plan.out.find('\n'));  // "plan native for CARD: ..."
    EXPECT_THAT(run.err, HasSubstr(line.substr(line.find(": ") + 2)));
  }
  std::remove(path.c_str());
}

TEST(PlanCommand, RefusesWhatIsWrong) {
  const std::string path = TempPath("bad_plan.json");
  ASSERT_EQ(Plan(kPowerInferLlama,
                 {"--vram", "4MiB", "--solver", "all-device", "-o", path})
                .exit_code,
            0);
  const std::vector<std::string> on_sim = {"--device",   "sim",    "--machine",
                                           kPlanMachine, "--plan", path};
  const auto expect_refused = [&](std::vector<std::string> more,
                                  const std::string& model,
                                  const char* message) {
    std::vector<std::string> flags = on_sim;
    flags.insert(flags.end(), more.begin(), more.end());
    const MainResult run = RunPlanned(model, flags);
    EXPECT_EQ(run.exit_code, 1) << message;
    EXPECT_THAT(run.err, HasSubstr(message));
  };
  expect_refused({"--ffn", "dense"}, kPowerInferLlama,
                 "in mode fast, not dense");
  expect_refused({"--vram", "300KiB"}, kPowerInferLlama, "the plan takes");
  expect_refused({}, kLlamaF16, "bad_plan.json");
  std::string text;
  {
    std::ifstream in(path);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::ofstream(path) << text.substr(0, text.size() / 2);
  expect_refused({}, kPowerInferLlama, "bad_plan.json");
  const MainResult none = RunMain({"plan", "-m", kPowerInferLlama});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("a plan is for a device"));
  EXPECT_EQ(Plan(kPowerInferLlama, {"--solver", "best"}).exit_code, 2);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace thermocline::cli
