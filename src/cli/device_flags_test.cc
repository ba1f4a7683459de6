#include "cli/device_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

const std::string kMachine =
    std::string(TC_SOURCE_DIR) + "/machines/slow-host.json";
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

// Enough of one to be told from other files.
std::string SomePlan() {
  const std::string path = TempPath("some_plan.json");
  std::ofstream(path) << "thermocline-plan";
  return path;
}

std::vector<std::string> OnSim(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"--device", "sim", "--machine", kMachine};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(DeviceFlagsTest, ASimulatedDeviceSaysWhatTheHostSays) {
  const MainResult host = RunOn({});
  ASSERT_EQ(host.exit_code, 0) << host.err;
  for (const char* vram : {"1MiB", "2MiB", "1GiB"}) {
    const MainResult sim =
        RunOn({"--device", "sim", "--machine", kMachine, "--vram", vram});
    ASSERT_EQ(sim.exit_code, 0) << sim.err;
    EXPECT_EQ(sim.out, host.out);
    EXPECT_THAT(sim.err, HasSubstr(", on sim0: "));
    EXPECT_THAT(sim.err, HasSubstr(" % of the neurons"));
  }
}

// llama.cpp's flags, in its spelling, and what the mode line says of them.
TEST(DeviceFlagsTest, WhatLiesWhere) {
  const MainResult host = RunOn({});
  ASSERT_EQ(host.exit_code, 0) << host.err;
  struct Case {
    std::vector<std::string> args;
    const char* line;
  };
  const Case cases[] = {
      {{"-ngl", "0"}, ", on sim0: nothing; 0 B"},
      {{"-ngl", "auto"}, "100 % of the neurons, head; "},
      {{"-ngl", "all"}, "100 % of the neurons, head; "},
      {{"--n-gpu-layers", "1", "--on-device-loss", "host"},
       "attention of 1 of 2 layers, predictors of 1 of 2 layers, 50 % of the "
       "neurons; "},
      {{"-ngl", "99", "-ot", "^output=CPU,blk.0.=host"},
       "attention of 1 of 2 layers, predictors of 1 of 2 layers, 50 % of the "
       "neurons; "},
      {{"-ngl", "0", "-ot", "attn=CUDA0", "-ncmoe", "1"},
       ", on sim0: attention of 2 of 2 layers; "},
      {{"--override-tensor", ".=CPU", "-cmoe"}, ", on sim0: nothing; 0 B"},
  };
  for (const Case& c : cases) {
    const MainResult result = RunOn(OnSim(c.args));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, host.out);
    EXPECT_THAT(result.err, HasSubstr(c.line));
  }
}

// Who looks at neurons sees the same of both.
TEST(DeviceFlagsTest, ATraceIsTheHosts) {
  const std::string prompts = TempPath("traced.txt");
  std::ofstream(prompts) << "Once upon a time\n";
  const auto trace = [&](const std::vector<std::string>& device) {
    const std::string path = TempPath("traced.trace");
    std::vector<std::string> args = {
        "trace", "-m", kSparse, "-f", prompts,        "-n",          "6",
        "-t",    "1",  "-o",    path, "--candidates", "--lookahead", "0,1"};
    args.insert(args.end(), device.begin(), device.end());
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string host = trace({});
  EXPECT_GT(host.size(), 100u);
  EXPECT_EQ(trace(OnSim({"--vram", "2MiB"})), host);
}

struct RefusalOfFlags {
  std::vector<std::string> args;
  int exit_code;
  const char* message;
};

const std::string kBadMachine = TempPath("bad.json");
const RefusalOfFlags kRefusals[] = {
    {{"--device", "gpu"}, 2, "is not one of none, sim, cuda"},
    {{"--device", "cuda-1"}, 2, "is not one of"},
    {{"--vram", "many"}, 2, "--vram"},
    {{"--device", "none", "--vram", "1GiB"}, 1, "--vram is for a device"},
    {{"--device", "sim", "--machine", kMachine, "--vram", "1GiB,2GiB"},
     1,
     "one budget at a time"},
    {{"--machine", kMachine}, 1, "--machine is what --device sim simulates"},
    {{"--device", "sim"}, 1, "say with --machine"},
    {{"--device", "sim", "--machine", "nowhere.json"}, 1, "nowhere.json"},
    {{"--device", "sim", "--machine", kBadMachine}, 1, "bad.json"},
    {{"--device", "sim", "--machine", kMachine, "--vram", "1KiB"},
     1,
     "the least that holds anything is"},
    {{"--device", "sim", "--machine", kMachine, "--vram", "1TiB"},
     1,
     "are free"},
    {{"--device", "none", "-ngl", "9"}, 1, "-ngl is for a device"},
    {{"--device", "none", "-ncmoe", "1"}, 1, "--n-cpu-moe is for a device"},
    {{"--device", "none", "-cmoe"}, 1, "--cpu-moe is for a device"},
    {{"--device", "none", "-ot", "ffn=CPU"}, 1, "-ot is for a device"},
    {{"--device", "none", "--on-device-loss", "host"},
     1,
     "--on-device-loss is for a device"},
    {{"--on-device-loss", "wait"}, 2, "is not one of fail, host"},
    {{"-ngl", "-1"}, 2, "-ngl"},
    {{"-ngl", "many"}, 2, "'many' is not a whole number"},
    {{"--n-cpu-moe", "x"}, 2, "--n-cpu-moe"},
    {{"-ot", "ffn"}, 2, "'ffn' is not REGEX=host|device"},
    {{"-ot", "=CPU"}, 2, "'=CPU' is not REGEX=host|device"},
    {{"-ot", "a=CPU,"}, 2, "'' is not REGEX=host|device"},
    {{"-ot", "ffn=TPU"}, 2, "'TPU' is not one of host, device, CPU"},
    {{"-ot", "ffn=CUDA1", "--device", "cuda"}, 1, "-ot puts tensors on CUDA1"},
    {OnSim({"--plan", SomePlan(), "-ngl", "1"}), 1, "--plan says what lies"},
    {OnSim({"--plan", SomePlan(), "--counts", "c"}), 1, "is a plan already"},
    {OnSim({"--plan", "no_plan.json"}), 2, "no_plan.json: cannot open"},
    {OnSim({"--plan", kSparse}), 2, "is no plan"},
    {{"--device", "none", "--counts", "c"}, 1, "--counts is for a device"},
    {OnSim({"-ot", "blk.[=device"}), 1, "is no regular expression"},
    {OnSim({"-ot", "blk.99.=device"}), 1, "none of its tensors matches"},
    {OnSim({"-ngl", "all", "--vram", "300KiB"}), 1, "would fit: use -ngl "},
    {OnSim({"-ot", "ffn=device", "--vram", "100KiB"}), 1,
     "use a larger --vram"},
};

TEST(DeviceFlagsTest, RefusalsNameWhatIsWrong) {
  std::ofstream(kBadMachine) << "{\"format\": 1";
  for (const RefusalOfFlags& c : kRefusals) {
    const MainResult result = RunOn(c.args);
    EXPECT_EQ(result.exit_code, c.exit_code) << c.message << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.message));
    EXPECT_EQ(result.out, "");
  }
  std::remove(kBadMachine.c_str());
}

// Those that were all that wanted a device want it still.
TEST(DeviceFlagsTest, OfAnyBudgetThereIsOne) {
  const DeviceFlags one = OfAnyBudget({.vrams = {5, 6, 7}});
  EXPECT_THAT(one.vrams, ::testing::ElementsAre(5));
  EXPECT_TRUE(WantsDevice(one));
  EXPECT_TRUE(CheckDeviceFlags(one));
  EXPECT_FALSE(WantsDevice(OfAnyBudget({})));
}

// With or without a GPU, `devices` and `run` say the same of the first one.
TEST(DeviceFlagsTest, CudaIsThereOrSaysWhyNot) {
  const MainResult devices = RunMain({"devices", "--no-measure"});
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
  // A flag that wants a device means it.
  for (const auto& [flag, value] :
       {std::pair{"-ngl", "9"}, std::pair{"--vram", "9MiB"},
        std::pair{"--counts", "none.gguf"}}) {
    for (const MainResult& without :
         {RunOn({flag, value}), RunMain({"plan", "-m", kSparse, flag, value}),
          RunMain({"bench", "-m", kSparse, "-n", "4", flag, value})}) {
      EXPECT_EQ(without.exit_code, 1);
      EXPECT_THAT(without.err,
                  HasSubstr(std::string(flag) + ": cuda0: " + why));
    }
  }
}

}  // namespace
}  // namespace thermocline::cli
