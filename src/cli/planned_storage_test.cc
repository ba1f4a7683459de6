#include "cli/planned_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/test_files.h"
#include "cli/test_storage_model.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadPlanText(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The cache is what the plan says it is, and the words are those of memory.
TEST_F(StorageModel, RunsAsPlannedAndSaysWhatCameOfIt) {
  const std::string path = MakePlan("storage_plan.json");
  const MainResult all = RunWith(ModelPath(), {"-c", "64", "-t", "1"});
  const MainResult run = RunWith(ModelPath(), {"--plan", path});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, all.out);
  EXPECT_THAT(run.err, HasSubstr("1 thread, context 64"));
  EXPECT_THAT(run.err, HasSubstr("(slow; "));
  EXPECT_THAT(run.err, HasSubstr("predicted "));
  EXPECT_THAT(run.err, HasSubstr(" misses a token), measured "));
  const auto plan = planner::ReadStoragePlan(path).value();
  EXPECT_THAT(run.err,
              HasSubstr("slots " + FormatBytes(plan.cache_bytes) + ","));
  // Flags go before.
  const MainResult other =
      RunWith(ModelPath(), {"--plan", path, "--balance", "lru", "-t", "2"});
  EXPECT_THAT(other.err, HasSubstr("2 threads"));
  EXPECT_THAT(other.err, HasSubstr("(lru; "));
  const MainResult bench =
      RunMain({"bench", "-m", ModelPath(), "--plan", path, "-p", "0", "-n", "8",
               "-r", "1", "-b", "16"});
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.err, HasSubstr("predicted "));
  std::remove(path.c_str());
}

// A text, and what goes when the test ends.
class ObserverFiles {
 public:
  ObserverFiles() {
    std::ofstream(text) << ReadPlanText(kValidText).substr(0, 20'000);
    std::ofstream(prompts) << "Once upon a time\n";
  }
  ~ObserverFiles() {
    for (const std::string& path : {text, prompts, out}) {
      std::remove(path.c_str());
    }
  }
  const std::string text = TempPath("observed.txt");
  const std::string prompts = TempPath("observed_prompts.txt");
  const std::string out = TempPath("observed");
};

// Commands that look at all neurons stream too, as a plan or a budget says.
TEST_F(StorageModel, ObserversStream) {
  const ObserverFiles files;
  const std::string plan = MakePlan("observer_plan.json");
  const auto run = [&](std::vector<std::string> args,
                       const std::vector<std::string>& more) {
    args.insert(args.end(), more.begin(), more.end());
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err.find(", the rest from ") == std::string::npos,
              more.empty() || args[0] == "profile");
    return ReadPlanText(files.out);
  };
  const std::vector<std::string> commands[] = {
      {"trace", "-m", ModelPath(), "-f", files.prompts, "-n", "4", "-c", "64",
       "-o", files.out},
      {"profile", ModelPath(), "--corpus", files.text, "-c", "32", "-n", "512",
       "-o", files.out}};
  const std::string half = Kib((LeastKib() + AllKib()) / 2);
  for (const std::vector<std::string>& command : commands) {
    const std::string want = run(command, {});
    EXPECT_EQ(run(command, {"--plan", plan}), want) << command[0];
    EXPECT_EQ(run(command, {"--ram", half}), want) << command[0];
    std::vector<std::string> little = command;
    little.insert(little.end(), {"--ram", "10KiB"});
    EXPECT_THAT(RunMain(little).err, HasSubstr("at least"));
  }
  std::remove(plan.c_str());
}

// Those that read weights themselves do not.
TEST_F(StorageModel, WhoNeedsAllWeightsRefusesToStream) {
  const ObserverFiles files;
  const std::string plan = MakePlan("whole_plan.json");
  const std::vector<std::string> sparsity = {
      "eval", "sparsity", "-m", ModelPath(), "-f", files.text, "-c", "64"};
  const std::vector<std::string> train = {"train",    ModelPath(), "--corpus",
                                          files.text, "-o",        files.out};
  for (std::vector<std::string> command : {sparsity, train}) {
    command.insert(command.end(), {"--plan", plan});
    const MainResult result = RunMain(command);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err,
                HasSubstr("a plan for a model of which a part stays"));
  }
  std::vector<std::string> little = sparsity;
  little.insert(little.end(), {"--ram", Kib(LeastKib())});
  const MainResult result = RunMain(little);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("its model does not stream"));
  std::remove(plan.c_str());
}

TEST_F(StorageModel, RefusesPlansOfSomethingElse) {
  const std::string path = MakePlan("other_plan.json");
  const std::string text = ReadPlanText(path);
  const auto expect_refused = [&](const std::string& model,
                                  std::vector<std::string> flags,
                                  const std::string& message) {
    flags.insert(flags.end(), {"--plan", path});
    const MainResult run = RunWith(model, flags);
    EXPECT_EQ(run.exit_code, 1) << message;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_THAT(run.err, HasSubstr(path));
  };
  expect_refused(ModelPath(), {"--ram", "1MiB"}, "of RAM, not 1.00 MiB");
  expect_refused(ModelPath(), {"--ffn", "dense"},
                 "in mode \"fast\", not \"dense\"");
  expect_refused(ModelPath(),
                 {"--vram", "1MiB", "--device", "sim", "--machine", "m.json"},
                 "a plan for memory alone");
  expect_refused(kStories, {}, "was made");
  const auto spoil = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos);
    changed.replace(at, from.size(), to);
    std::ofstream(path) << changed;
  };
  spoil("\"machine\": \"" + StorageHostName(), "\"machine\": \"a phone");
  expect_refused(ModelPath(), {}, "a plan for \"a phone\", not for");
  spoil("\"unit\": \"records\"", "\"unit\": \"experts\"");
  expect_refused(ModelPath(), {}, "is \"experts\", here \"records\"");
  std::ofstream(path) << text.substr(0, text.size() / 2);
  expect_refused(ModelPath(), {}, "cut short");
  std::remove(path.c_str());
}

}  // namespace
}  // namespace thermocline::cli
