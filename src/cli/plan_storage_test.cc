#include "cli/plan_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_storage_model.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(StorageModel, PlanSaysWhoComputesWhatStaysAndHowFast) {
  const std::string half = Kib((LeastKib() + AllKib()) / 2);
  const MainResult plan =
      PlanWith({"--ram", half, "--explain", "--min-speed", "5"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  for (const char* part :
       {"cores     1 thread computes on CPU 0; they read too",
        "of slots for records (slow)", " tokens/s: ", " records a token, ",
        "tokens drawn from the counts in",
        "prompts   the CPU, with all neurons", "least     ",
        "\nalone     products ", "\nmachine   products 4.0 GB/s",
        "\n| RAM | tokens/s |\n"}) {
    EXPECT_THAT(plan.out, HasSubstr(part));
  }
}

TEST_F(StorageModel, PlanMoreRamIsNeverSlowerAndAllOfItMissesNothing) {
  const double least = LeastKib();
  const double all = AllKib();
  double before = 0.0;
  for (int i = 0; i <= 4; ++i) {
    // Printed figures are rounded to 10 KiB.
    const double ram = least + 12 + i * (all - least) / 4;
    const MainResult plan = PlanWith({"--ram", Kib(ram)});
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
    const double speed = KibBehind(plan.out, "predicted ");
    EXPECT_GE(speed, 0.99 * before) << plan.out;
    before = speed;
    EXPECT_EQ(plan.out.find("misses") == std::string::npos, i == 4);
    EXPECT_EQ(plan.out.find("cache     none") == std::string::npos, i != 4);
  }
}

TEST_F(StorageModel, PlanSaysTheLeastRam) {
  const double least = LeastKib();
  const MainResult little = PlanWith({"--ram", Kib(least - 12)});
  EXPECT_EQ(little.exit_code, 1);
  EXPECT_THAT(little.err, HasSubstr("at least"));
  EXPECT_THAT(little.err, HasSubstr("are needed"));
  EXPECT_EQ(PlanWith({"--ram", Kib(least + 12)}).exit_code, 0);
  EXPECT_THAT(PlanWith({"--ram", "1GiB", "--min-speed", "1000000"}).out,
              HasSubstr("no RAM is enough here for 1e+06 tokens/s"));
}

// The least is what a run needs that has no plan, with the same flags.
TEST_F(StorageModel, PlanAndRunNameOneLeast) {
  const std::string least = "at least ";
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{
           {}, {"-b", "64"}, {"-ctk", "f32", "--ffn", "dense"}}) {
    std::vector<std::string> plan = {"plan", "--machine", MachinePath()};
    std::vector<std::string> run = {"run", "-p", "a", "-n", "1"};
    for (std::vector<std::string>* command : {&plan, &run}) {
      command->insert(command->end(), {"-m", ModelPath(), "-c", "64", "-t", "1",
                                       "--ram", "10KiB"});
      command->insert(command->end(), more.begin(), more.end());
    }
    EXPECT_EQ(KibBehind(RunMain(plan).err, least),
              KibBehind(RunMain(run).err, least))
        << ::testing::PrintToString(more);
  }
}

TEST_F(StorageModel, PlanRefusesWhatIsWrong) {
  struct Row {
    std::vector<std::string> flags;
    int exit_code;
    const char* message;
  };
  const std::string ram = Kib(AllKib() - 50);
  for (const Row& row : std::vector<Row>{
           {{"--ram", ram, "--cpus", "0,77"}, 1, "CPU 77 is none of those"},
           {{"--ram", ram, "--cpus", "3-1"}, 2, "is no list of CPUs"},
           {{"--ram", ram, "--min-speed", "0"}, 2, "min-speed"},
           {{"--ram", ram, "--threads-max", "0"}, 2, "threads-max"},
           {{"--ram", ram, "--balance", "best"}, 2, "two-queue"},
           {{"--ram", ram, "--solver", "native"}, 2, "--ram alone has none"},
           {{"--ram", ram, "--trace", "none.trace"}, 1, "none.trace"},
           {{"--ram", ram, "-o", ModelPath()}, 1, "one of the files to read"},
           {{"--ram", ram, "-o", MachinePath()}, 1, "one of the files to read"},
           {{"--vram", "1MiB", "--cpus", "0"}, 2, "without a device"},
           {{"--cpus", "0"}, 2, "without a device"}}) {
    const MainResult plan = PlanWith(row.flags);
    EXPECT_EQ(plan.exit_code, row.exit_code) << plan.err;
    EXPECT_THAT(plan.err, HasSubstr(row.message));
  }
  EXPECT_THAT(RunMain({"plan", "--like", "tiny", "--ram", "1MiB"}).err,
              HasSubstr("--like has no file, whose storage could be measured"));
}

// Without a file, for a machine that is stated.
TEST_F(StorageModel, PlanPlansAShape) {
  const MainResult plan =
      RunMain({"plan", "--like", "tiny", "--machine", MachinePath(), "-c", "64",
               "-b", "16", "--ram", "1GiB"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("cache     none"));
}

// A trace tells policies apart.
TEST_F(StorageModel, PlanTakesATrace) {
  const std::string trace = TempPath("plan.trace");
  const std::string prompts = TempPath("plan_prompts.txt");
  std::ofstream(prompts) << "one two three\n";
  const MainResult traced =
      RunMain({"trace", "-m", ModelPath(), "-f", prompts, "-n", "24", "-c",
               "64", "-t", "1", "-o", trace});
  if (traced.exit_code == 0) {
    const std::string half = Kib((LeastKib() + AllKib()) / 2);
    const MainResult plan = PlanWith({"--ram", half, "--trace", trace});
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
    EXPECT_THAT(plan.out, HasSubstr("the trace " + trace));
    EXPECT_THAT(
        PlanWith({"--ram", half, "--trace", trace, "--balance", "lru"}).out,
        HasSubstr("for records (lru)"));
  } else {
    ADD_FAILURE() << traced.err;
  }
  std::remove(trace.c_str());
  std::remove(prompts.c_str());
}

}  // namespace
}  // namespace thermocline::cli
