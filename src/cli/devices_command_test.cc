#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kCard =
    std::string(TC_SOURCE_DIR) + "/machines/rtx4090-ddr5.json";

TEST(DevicesCommandTest, MeasuresASimulatedOneInItsOwnTime) {
  const MainResult text =
      RunMain({"devices", "--device", "sim", "--machine", kCard});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("the simulated one reads 60.48 GB/s\nsim0 "));
  EXPECT_THAT(text.out, HasSubstr("\n       medians of 10 rounds"));
  EXPECT_THAT(text.out, Not(HasSubstr("cuda")));
  const MainResult json =
      RunMain({"devices", "--device", "sim", "--machine", kCard, "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_NEAR(parsed["devices"][0]["rates"]["read_gb_per_s"], 927.36, 9.0);
  EXPECT_EQ(parsed["devices"][0]["compute_capability"], nullptr);
}

TEST(DevicesCommandTest, OnlyListsWhenAskedTo) {
  const MainResult sim = RunMain(
      {"devices", "--device", "sim", "--machine", kCard, "--no-measure"});
  ASSERT_EQ(sim.exit_code, 0) << sim.err;
  EXPECT_THAT(sim.out, HasSubstr("RTX 4090, simulated, 23.99 GiB of"));
  EXPECT_THAT(sim.out, Not(HasSubstr("GB/s")));
  const MainResult host = RunMain({"devices", "--no-measure"});
  ASSERT_EQ(host.exit_code, 0) << host.err;
  EXPECT_THAT(host.out, Not(HasSubstr("GB/s")));
}

TEST(DevicesCommandTest, MeasuresTheHostEvenWithoutADevice) {
  const MainResult result = RunMain({"devices"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(" GB/s of "));
}

TEST(DevicesCommandTest, RefusalsNameWhatIsWrong) {
  struct Case {
    std::vector<std::string> args;
    int exit_code;
    const char* message;
  };
  const Case cases[] = {
      {{"--device", "gpu"}, 2, "is not one of sim, cuda"},
      {{"--device", "cuda-1"}, 2, "is not one of"},
      {{"--device", "cuda999"}, 1, "cuda999: "},
      {{"--device", "sim"}, 1, "say with --machine"},
      {{"--machine", kCard}, 1, "--machine is what --device sim simulates"},
      {{"--device", "sim", "--machine", "nowhere.json"}, 1, "nowhere.json"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> args = {"devices"};
    args.insert(args.end(), c.args.begin(), c.args.end());
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, c.exit_code) << c.message << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.message));
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace thermocline::cli
