// For tests: a small prepared model on storage, and a machine to plan for.
#ifndef THERMOCLINE_CLI_TEST_STORAGE_MODEL_H_
#define THERMOCLINE_CLI_TEST_STORAGE_MODEL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/storage_host.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "planner/storage_files.h"

namespace thermocline::cli {

// Made-up rates with this machine's name, so that runs take its plans.
inline planner::StorageMachine TestHost() {
  planner::StorageMachine machine = {
      .name = StorageHostName(),
      .cores = {{.cpu = 0, .row_rate = 4e9, .prompt_rate = 40e9}},
      .memory = {{1, 10e9}},
      .read_cpu_seconds = 5e-6};
  for (const bool is_random : {false, true}) {
    machine.reads.push_back({is_random, 4096, 1, 10e3});
    machine.reads.push_back({is_random, 4096, 32, 100e3});
    machine.reads.push_back({is_random, 1 << 20, 8, 2000});
  }
  return machine;
}

// One suite for all files that need the model: it takes seconds to make.
class StorageModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const MainResult made = RunMain(
        {"prepare", kDemoModel, "--corpus", kValidText, "-c", "32", "-n",
         "4096", "--steps", "20", "--for-storage", "-o", ModelPath()});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    ASSERT_TRUE(
        planner::WriteStorageMachine(TestHost(), MachinePath()).has_value());
  }
  static void TearDownTestSuite() {
    std::remove(ModelPath().c_str());
    std::remove(MachinePath().c_str());
  }
  static std::string ModelPath() { return TempPath("on_storage.gguf"); }
  static std::string MachinePath() { return TempPath("storage_machine.json"); }

  // Behind `plan -m MODEL --machine MACHINE -c 64 -b 16`.
  static MainResult PlanWith(std::vector<std::string> flags) {
    std::vector<std::string> args = {"plan",      "-m",          ModelPath(),
                                     "--machine", MachinePath(), "-c",
                                     "64",        "-b",          "16"};
    args.insert(args.end(), flags.begin(), flags.end());
    return RunMain(args);
  }

  // The number behind `before`, in KiB as it is printed.
  static double KibBehind(const std::string& text, const std::string& before) {
    const size_t at = text.find(before);
    EXPECT_NE(at, std::string::npos) << before << " in " << text;
    if (at == std::string::npos) return 0.0;
    size_t length = 0;
    const std::string rest = text.substr(at + before.size());
    const double value = std::stod(rest, &length);
    return rest.substr(length, 4) == " MiB" ? 1024.0 * value : value;
  }
  static std::string Kib(double kib) {
    return std::to_string(static_cast<int64_t>(kib)) + "KiB";
  }
  // What a plan says is the least, and what holds all.
  static double LeastKib() {
    return KibBehind(PlanWith({"--ram", "1GiB"}).out, "memory    ");
  }
  static double AllKib() {
    return KibBehind(PlanWith({"--ram", "1GiB"}).out, "at least, ");
  }

  // Of half of what can be left out, to a file.
  static std::string MakePlan(const std::string& name) {
    const std::string path = TempPath(name);
    const MainResult plan =
        PlanWith({"--ram", Kib((LeastKib() + AllKib()) / 2), "-o", path});
    EXPECT_EQ(plan.exit_code, 0) << plan.err;
    return path;
  }
  static MainResult RunWith(const std::string& model,
                            std::vector<std::string> flags) {
    std::vector<std::string> args = {"run",       "-m",     model, "-p",
                                     "Once upon", "-n",     "12",  "-b",
                                     "16",        "--temp", "0"};
    args.insert(args.end(), flags.begin(), flags.end());
    return RunMain(args);
  }
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TEST_STORAGE_MODEL_H_
