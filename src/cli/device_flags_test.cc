#include "cli/device_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

const std::string kMachine =
    std::string(TC_SOURCE_DIR) + "/machines/rtx4090-ddr5.json";
// Brings predictors, and its down matrices lie transposed.
const std::string kSparse =
    InTestData("golden-powerinfer/llama-f16.powerinfer.gguf");

MainResult RunOn(const std::vector<std::string>& device) {
  std::vector<std::string> args = {"run", "-m", kSparse, "-p", "Once upon",
                                   "-n",  "8",  "-t",    "1",  "--temp",
                                   "0",   "-c", "64"};
  args.insert(args.end(), device.begin(), device.end());
  return RunMain(args);
}

TEST(DeviceFlagsTest, ASimulatedDeviceSaysWhatTheHostSays) {
  const MainResult host = RunOn({});
  ASSERT_EQ(host.exit_code, 0) << host.err;
  for (const char* vram : {"1MiB", "2MiB", "1GiB"}) {
    const MainResult sim =
        RunOn({"--device", "sim", "--machine", kMachine, "--vram", vram});
    ASSERT_EQ(sim.exit_code, 0) << sim.err;
    EXPECT_EQ(sim.out, host.out);
    EXPECT_THAT(sim.err, HasSubstr(", on sim0 "));
    EXPECT_THAT(sim.err, HasSubstr("of records, "));
  }
}

TEST(DeviceFlagsTest, RefusalsNameWhatIsWrong) {
  const std::string bad = TempPath("bad.json");
  std::ofstream(bad) << "{\"format\": 1";
  struct Case {
    std::vector<std::string> args;
    int exit_code;
    const char* message;
  };
  const Case cases[] = {
      {{"--device", "gpu"}, 2, "is not one of none, sim, cuda"},
      {{"--device", "cuda-1"}, 2, "is not one of"},
      {{"--vram", "many"}, 2, "--vram"},
      {{"--vram", "1GiB"}, 1, "--vram is for a device"},
      {{"--machine", kMachine}, 1, "--machine is what --device sim simulates"},
      {{"--device", "sim"}, 1, "say with --machine"},
      {{"--device", "sim", "--machine", "nowhere.json"}, 1, "nowhere.json"},
      {{"--device", "sim", "--machine", bad}, 1, "bad.json"},
      {{"--device", "sim", "--machine", kMachine, "--vram", "1KiB"},
       1,
       "holds no neuron"},
      {{"--device", "sim", "--machine", kMachine, "--vram", "1TiB"},
       1,
       "are free"},
      {{"--device", "sim", "--machine", kMachine, "--ffn", "dense"},
       1,
       "no neuron can be on a device"},
  };
  for (const Case& c : cases) {
    const MainResult result = RunOn(c.args);
    EXPECT_EQ(result.exit_code, c.exit_code) << c.message << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.message));
    EXPECT_EQ(result.out, "");
  }
  std::remove(bad.c_str());
}

// With or without a GPU, `devices` and `run` say the same of the first one.
TEST(DeviceFlagsTest, CudaIsThereOrSaysWhyNot) {
  const MainResult devices = RunMain({"devices"});
  ASSERT_EQ(devices.exit_code, 0) << devices.err;
  EXPECT_THAT(devices.out, HasSubstr("host "));
  const std::string none = "cuda   none: ";
  const size_t at = devices.out.find(none);
  const MainResult run = RunOn({"--device", "cuda", "--vram", "64MiB"});
  EXPECT_EQ(run.exit_code == 0, at == std::string::npos) << run.err;
  if (at == std::string::npos) return;
  const std::string why = devices.out.substr(
      at + none.size(), devices.out.find('\n', at) - at - none.size());
  EXPECT_THAT(run.err, HasSubstr(why));
}

}  // namespace
}  // namespace thermocline::cli
