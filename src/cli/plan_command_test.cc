#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/model.h"
#include "model/test_split.h"

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
  for (const char* solver :
       {"native", "frequency", "sparse-layers", "stream-dense"}) {
    const MainResult plan = Plan(
        kPowerInferLlama, {"--vram", "2MiB", "--explain", "--solver", solver});
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
    EXPECT_THAT(plan.out, HasSubstr(std::string("plan      ") + solver));
    EXPECT_THAT(plan.out, HasSubstr("tokens/s"));
    EXPECT_THAT(plan.out, HasSubstr("| 1 | "));
    EXPECT_THAT(plan.out, HasSubstr(" of 2.00 MiB: "));
    EXPECT_THAT(plan.out, HasSubstr("\nhost      "));
    EXPECT_THAT(plan.out, HasSubstr("a token reads: device, host"));
  }
}

TEST(PlanCommand, KeepsToTheRamToo) {
  const auto plan_with = [](const char* ram) {
    return Plan(kPowerInferLlama, {"--vram", "2MiB", "--ram", ram});
  };
  EXPECT_EQ(plan_with("1GiB").exit_code, 0);
  const MainResult little = plan_with("100KiB");
  EXPECT_EQ(little.exit_code, 1);
  EXPECT_THAT(little.err, HasSubstr("100.00 KiB of RAM"));
}

TEST(PlanCommand, ReplacesNoMachine) {
  const std::string machine = TempPath("own_card.json");
  std::filesystem::copy_file(kPlanMachine, machine,
                             std::filesystem::copy_options::overwrite_existing);
  for (const std::vector<std::string>& model :
       {std::vector<std::string>{"-m", kPowerInferLlama},
        std::vector<std::string>{"--like", "tiny"}}) {
    std::vector<std::string> args = {"plan",   "--machine", machine,
                                     "--vram", "2MiB",      "-c",
                                     "64",     "-o",        machine};
    args.insert(args.end(), model.begin(), model.end());
    const MainResult plan = RunMain(args);
    EXPECT_EQ(plan.exit_code, 1);
    EXPECT_THAT(plan.err, HasSubstr("one of the files to read"));
  }
  std::remove(machine.c_str());
}

// A plan is carried out, to the byte, and changes no word.
TEST(PlanCommand, WritesWhatRunTakes) {
  const std::string path = TempPath("plan.json");
  const MainResult host = RunPlanned(kPowerInferLlama, {});
  ASSERT_EQ(host.exit_code, 0) << host.err;
  for (const char* solver :
       {"native", "all-device", "all-host", "fetch-active"}) {
    const bool is_link = solver == std::string("fetch-active");
    const char* vram = is_link ? "700KiB" : "4MiB";
    const MainResult plan = Plan(
        kPowerInferLlama, {"--vram", vram, "--solver", solver, "-o", path});
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
    const MainResult run = RunPlanned(
        kPowerInferLlama, {"--device", "sim", "--machine", kPlanMachine,
                           "--vram", vram, "--plan", path});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, host.out);
    const std::string line =
        plan.out.substr(0, plan.out.find('\n'));  // "plan native for CARD: ..."
    EXPECT_THAT(run.err, HasSubstr(line.substr(line.find(": ") + 2)));
    EXPECT_EQ(plan.out.find("over the link") != std::string::npos, is_link);
  }
  std::remove(path.c_str());
}

// Without --vram a plan's own budget counts, in bench too.
TEST(PlanCommand, WritesItsBudget) {
  const std::string path = TempPath("own_plan.json");
  const MainResult plan =
      Plan(kPowerInferLlama, {"--vram", "3MiB", "-o", path});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  const std::vector<std::string> on_sim = {"--device",   "sim",    "--machine",
                                           kPlanMachine, "--plan", path};
  const MainResult run = RunPlanned(kPowerInferLlama, on_sim);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("of 3.00 MiB"));
  std::vector<std::string> args = {
      "bench", "-m", kPowerInferLlama, "-t", "1", "-n", "5", "-o", "json"};
  args.insert(args.end(), on_sim.begin(), on_sim.end());
  const MainResult bench = RunMain(args);
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("\"vram\": 3145728"));
  args.insert(args.end(), {"--vram", "3MiB,4MiB"});
  const MainResult two = RunMain(args);
  EXPECT_EQ(two.exit_code, 1);
  EXPECT_THAT(two.err, HasSubstr("a plan for 3.00 MiB of VRAM, not 4.00 MiB"));
  args.insert(args.end(), {"--placement", "native"});
  EXPECT_EQ(RunMain(args).exit_code, 2);
  std::remove(path.c_str());
}

TEST(PlanCommand, SaysThatNobodyCounted) {
  EXPECT_THAT(Plan(kPowerInferLlama, {"--vram", "2MiB"}).out,
              HasSubstr("profile   none in the file: all neurons"));
  // Where there is nothing to choose among, nobody had to.
  for (const std::string& model : {kPowerInferLlama, kLlamaF16}) {
    const MainResult dense = Plan(model, {"--vram", "2MiB", "--ffn", "dense"});
    ASSERT_EQ(dense.exit_code, 0) << dense.err;
    EXPECT_THAT(dense.out, ::testing::Not(HasSubstr("profile")));
  }
}

TEST(PlanCommand, SaysTheLeastBudget) {
  const MainResult little = Plan(kPowerInferLlama, {"--vram", "1KiB"});
  EXPECT_EQ(little.exit_code, 1);
  const std::string before = "the least that holds anything is ";
  const size_t at = little.err.find(before);
  ASSERT_NE(at, std::string::npos) << little.err;
  // As it is printed, rounded up.
  const double kib = std::stod(little.err.substr(at + before.size()));
  EXPECT_THAT(little.err, HasSubstr(" KiB"));
  const auto plan_of = [](double budget) {
    return Plan(kPowerInferLlama,
                {"--vram", std::to_string(static_cast<int>(budget)) + "KiB"});
  };
  EXPECT_EQ(plan_of(kib + 1).exit_code, 0) << plan_of(kib + 1).err;
  EXPECT_EQ(plan_of(kib - 1).exit_code, 1);
}

// PowerInfer's split file as a plan, beside ours.
TEST(PlanCommand, TakesASplitFile) {
  const std::string split = TempPath("plan.gpuidx");
  const std::string path = TempPath("split_plan.json");
  const auto opened = model::Model::Open(kPowerInferLlama).value();
  const size_t num_layers = opened->config().num_layers;
  const auto width = static_cast<int32_t>(opened->config().layers[0].ffn.width);
  std::ofstream(split, std::ios::binary)
      << model::TestHot(num_layers, width).Bytes();
  const std::vector<std::string> flags = {"--vram", "4MiB", "--split",
                                          split,    "-o",   path};
  const MainResult plan = Plan(kPowerInferLlama, flags);
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("plan      ilp for"));
  EXPECT_THAT(plan.out, HasSubstr("50 % of the neurons"));
  EXPECT_THAT(plan.out, HasSubstr("ms a token; native would take"));
  const MainResult run = RunPlanned(
      kPowerInferLlama,
      {"--device", "sim", "--machine", kPlanMachine, "--plan", path});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("50 % of the neurons"));

  std::vector<std::string> both = flags;
  both.insert(both.end(), {"--solver", "native"});
  EXPECT_THAT(Plan(kPowerInferLlama, both).err, HasSubstr("leave one out"));
  for (const auto& [layers, neurons] :
       {std::pair(num_layers + 1, width), std::pair(num_layers, width + 2)}) {
    std::ofstream(split, std::ios::binary)
        << model::TestHot(layers, neurons).Bytes();
    const MainResult other = Plan(kPowerInferLlama, flags);
    EXPECT_EQ(other.exit_code, 1);
    EXPECT_THAT(other.err, HasSubstr(split));
  }
  std::remove(split.c_str());
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
                 "in mode \"fast\", not \"dense\"");
  expect_refused({"--vram", "300KiB"}, kPowerInferLlama,
                 "a plan for 4.00 MiB of VRAM, not 300.00 KiB");
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
