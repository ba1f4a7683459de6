#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kOpMachine =
    std::string(TC_SOURCE_DIR) + "/machines/rtx4090-ddr5.json";

MainResult RunSmallOp(std::vector<std::string> args) {
  args.insert(args.begin(),
              {"bench", "op", "--width", "64", "--neurons", "50", "-r", "1"});
  return RunMain(args);
}

TEST(BenchOpCommandTest, MeasuresTheHostWithoutAModel) {
  const MainResult result = RunSmallOp(
      {"-t", "1", "--type", "f16", "--memory", "1MiB", "--isa", "scalar"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(StartsWith("Neurons of one layer, 64 wide, 50 neurons of "
                               "F16"),
                    HasSubstr("| host   |     99 % |"), HasSubstr("in cache"),
                    HasSubstr("at most 1.00 MiB of weights"),
                    HasSubstr("build: thermocline " TC_VERSION ", scalar, ")));
}

TEST(BenchOpCommandTest, SimulatedOutputIsTheSameEveryTime) {
  const std::vector<std::string> args = {"--device", "sim", "--machine",
                                         kOpMachine};
  const MainResult result = RunSmallOp(args);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("| sim0   |    dense |"),
                    HasSubstr("sim0 (NVIDIA GeForce RTX 4090)"),
                    HasSubstr("moving wins"), Not(HasSubstr("| host "))));
  EXPECT_EQ(result.out, RunSmallOp(args).out);
}

TEST(BenchOpCommandTest, SeveralDevicesAreOneTable) {
  const MainResult result =
      RunSmallOp({"--device", "host,sim", "--machine", kOpMachine, "-t", "1",
                  "--memory", "1MiB", "-o", "csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(StartsWith("what,device,"), HasSubstr("\ndense,host,"),
                    HasSubstr("\ndense,sim0,"), HasSubstr("\nmove,sim0,"),
                    Not(HasSubstr("\nmove,host,"))));
}

TEST(BenchOpCommandTest, RefusesWrongUsage) {
  struct Case {
    std::vector<std::string> args;
    int exit_code;
    const char* part;
  };
  for (const Case& c :
       {Case{{"--device", "gpu"}, 2, "'gpu' is not one of host, sim, cuda"},
        Case{{"--device", "host,"}, 2, "'' is not one of host"},
        Case{{"--device", "host,host"}, 2, "'host' is there twice"},
        Case{{"--device", "sim"}, 2, "say with --machine"},
        Case{{"--machine", kOpMachine}, 2, "is what --device sim simulates"},
        Case{{"--type", "q6_k"}, 2, "q6_k"},
        Case{{"--width", "65"}, 2, "65 is no multiple of 32, Q4_0's block"},
        Case{{"--neurons", "0"}, 2, "--neurons"}, Case{{"-r", "0"}, 2, "-r"},
        Case{{"--memory", "many"}, 2, "--memory"},
        Case{{"--memory", "1KiB"}, 1, "more than the 1.00 KiB"},
        Case{{"--device", "sim", "--machine", "absent.json"}, 1, "absent.json"},
        Case{{"--device", "cuda7"}, 1, "cuda7"}}) {
    const MainResult result = RunSmallOp(c.args);
    EXPECT_EQ(result.exit_code, c.exit_code) << c.part;
    EXPECT_THAT(result.err, HasSubstr(c.part));
  }
}

TEST(BenchOpCommandTest, FlagsInFrontAreRefused) {
  const MainResult result = RunMain({"bench", "-t", "2", "op"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("in front of op"));
}

}  // namespace
}  // namespace thermocline::cli
