#include "cli/prefill_device_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Of no OpenVINO, wherever this runs.
const std::string kNowhere = "/no/such/openvino";

MainResult TellStory(const std::vector<std::string>& flags) {
  std::vector<std::string> args = {
      "run", "-m", kStories, "-p", "Once upon a time there was a girl",
      "-n",  "12", "-t",     "2",  "--temp",
      "0",   "-c", "64"};
  args.insert(args.end(), flags.begin(), flags.end());
  return RunMain(args);
}

TEST(PrefillDeviceFlagsTest, TheReferenceTellsTheHostsStory) {
  const MainResult host = TellStory({});
  ASSERT_EQ(host.exit_code, 0) << host.err;
  EXPECT_THAT(host.err, Not(HasSubstr("prompts on")));
  const std::vector<std::string> ways[] = {
      {},
      {"--npu-param", "on"},
      {"--npu-tokens", "1,8", "--npu-check", "off"},
      {"--npu-check", "fail", "--no-fallback"}};
  for (const std::vector<std::string>& way : ways) {
    std::vector<std::string> flags = {"--prefill-device", "reference"};
    if (std::ranges::find(way, "--npu-tokens") == way.end()) {
      flags.insert(flags.end(), {"--npu-tokens", "8"});
    }
    flags.insert(flags.end(), way.begin(), way.end());
    const MainResult device = TellStory(flags);
    ASSERT_EQ(device.exit_code, 0) << device.err;
    EXPECT_EQ(device.out, host.out);
    EXPECT_THAT(device.err, AllOf(HasSubstr("prompts on reference"),
                                  HasSubstr("prefill device: "),
                                  HasSubstr(" tokens/s; ms a layer: ")));
  }
}

TEST(PrefillDeviceFlagsTest, SaysWhyADeviceIsNotUsed) {
  const MainResult host = TellStory({});
  const MainResult fallback = TellStory(
      {"--prefill-device", "npu,CPU,host", "--openvino-lib", kNowhere});
  ASSERT_EQ(fallback.exit_code, 0) << fallback.err;
  EXPECT_EQ(fallback.out, host.out);
  EXPECT_THAT(fallback.err,
              AllOf(HasSubstr("--prefill-device NPU: "),
                    HasSubstr("--prefill-device CPU: "), HasSubstr(kNowhere),
                    HasSubstr("the host computes prompts")));
  const MainResult next =
      TellStory({"--prefill-device", "NPU,reference", "--npu-tokens", "8",
                 "--openvino-lib", kNowhere});
  EXPECT_THAT(next.err, HasSubstr("prompts on reference"));
  const MainResult refused = TellStory(
      {"--prefill-device", "NPU", "--no-fallback", "--openvino-lib", kNowhere});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr(kNowhere));
}

TEST(PrefillDeviceFlagsTest, RefusesWhatDoesNotGoTogether) {
  struct Case {
    std::vector<std::string> flags;
    int exit_code;
    const char* message;
  };
  const Case cases[] = {
      {{"--prefill-device", ""}, 2, "has an empty name"},
      {{"--prefill-device", "NPU,,host"}, 2, "has an empty name"},
      {{"--prefill-device", "host,NPU"}, 2, "the host can always compute"},
      {{"--no-fallback"}, 1, "--prefill-device has to name devices"},
      {{"--prefill-device", "reference,host", "--no-fallback"},
       1,
       "and not the host"},
      {{"--npu-weights", "i8-cw"}, 1, "--npu-weights is for a device"},
      {{"--npu-param", "on"}, 1, "--npu-param is for a device"},
      {{"--npu-tokens", "8"}, 1, "--npu-tokens is for a device"},
      {{"--npu-weights", "i3"}, 2, "'i3' is not one of exact, "},
      {{"--npu-param", "maybe"}, 2, "'maybe' is not one of on, off, auto"},
      {{"--npu-check", "yes"}, 2, "'yes' is not one of fail, warn, off"},
      {{"--npu-tokens", "0"}, 2, "--npu-tokens"},
      {{"--prefill-device", "reference", "--npu-tokens", "8,4"},
       1,
       "static graphs of 8, 4 rows"},
  };
  for (const Case& c : cases) {
    const MainResult result = TellStory(c.flags);
    EXPECT_EQ(result.exit_code, c.exit_code) << c.message << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.message));
  }
}

// Counted, and refused before the model is read.
TEST(PrefillDeviceFlagsTest, GraphsCountInABudget) {
  const std::vector<std::string> flags = {"--prefill-device", "reference",
                                          "--npu-tokens", "8"};
  const auto with_ram = [&](const char* ram) {
    std::vector<std::string> more = flags;
    more.insert(more.end(), {"--ram", ram});
    return TellStory(more);
  };
  const MainResult fits = with_ram("64MiB");
  ASSERT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_THAT(fits.err, AllOf(HasSubstr("static graphs "),
                              HasSubstr("weights exact as inputs")));
  const MainResult refused = with_ram("1MiB");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("static graphs "));
}

TEST(PrefillDeviceFlagsTest, EvalAndBenchTakeThem) {
  const std::vector<std::string> device = {
      "--prefill-device", "reference", "--npu-tokens", "8", "-t", "1"};
  std::vector<std::string> eval = {"eval",     "logits",
                                   "-m",       kStories,
                                   "--tokens", "1,5,9,13,20,40,2,8,7",
                                   "-o",       TempPath("logits")};
  eval.insert(eval.end(), device.begin(), device.end());
  const MainResult logits = RunMain(eval);
  EXPECT_EQ(logits.exit_code, 0) << logits.err;
  EXPECT_THAT(logits.err, AllOf(HasSubstr("prompts on reference"),
                                HasSubstr("prefill device: 9 rows")));
  eval.emplace_back("--together");
  EXPECT_THAT(RunMain(eval).err, HasSubstr("prefill device: 9 rows"));
  std::vector<std::string> bench = {"bench", "-m", kStories, "-p", "16",
                                    "-n",    "2",  "-r",     "1"};
  bench.insert(bench.end(), device.begin(), device.end());
  const MainResult speed = RunMain(bench);
  EXPECT_EQ(speed.exit_code, 0) << speed.err;
}

// Else the device would be compared with itself.
TEST(PrefillDeviceFlagsTest, EvalComparesWithTheHost) {
  const MainResult kl =
      RunMain({"eval", "kl", "-m", kStories, "--base-mode", "dense", "-f",
               kValidText, "-c", "16", "--chunks", "2", "-t", "1",
               "--prefill-device", "reference", "--npu-tokens", "8"});
  ASSERT_EQ(kl.exit_code, 0) << kl.err;
  const size_t first = kl.err.find("prompts on reference");
  ASSERT_NE(first, std::string::npos) << kl.err;
  EXPECT_EQ(kl.err.find("prompts on reference", first + 1), std::string::npos);
  EXPECT_THAT(kl.err, HasSubstr("prefill device: 30 rows"));
}

TEST(PrefillDeviceFlagsTest, TimesAreThoseOfALayer) {
  EXPECT_EQ(FormatPrefillTimes("prefill device", {}, 4), "");
  EXPECT_EQ(FormatPrefillTimes("prefill device",
                               {.read_s = 0.004,
                                .unpack_s = 0.008,
                                .unpack_wait_s = 0.002,
                                .infer_s = 0.4,
                                .hand_over_s = 0.004,
                                .hand_over_wait_s = 0.001,
                                .whole_s = 0.5,
                                .compile_s = 1.25,
                                .num_rows = 100,
                                .num_padded = 28},
                               4),
            "prefill device: 100 rows and 28 of padding, 200.0 tokens/s; ms a "
            "layer: 125.00 = infer 100.00, waiting for weights 0.50 (read "
            "1.00, unpack 2.00), for keys and values 0.25 (of 1.00); compiled "
            "in 1.2 s\n");
}

}  // namespace
}  // namespace thermocline::cli
