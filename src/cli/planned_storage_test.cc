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
      RunWith(ModelPath(), {"--plan", path, "--policy", "lru", "-t", "2"});
  EXPECT_THAT(other.err, HasSubstr("2 threads"));
  EXPECT_THAT(other.err, HasSubstr("(lru; "));
  const MainResult bench =
      RunMain({"bench", "-m", ModelPath(), "--plan", path, "-p", "0", "-n", "8",
               "-r", "1", "-b", "16"});
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.err, HasSubstr("predicted "));
  std::remove(path.c_str());
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
