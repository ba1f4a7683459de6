#include "cli/like_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

const std::string kLikeMachine =
    std::string(TC_SOURCE_DIR) + "/machines/rtx2080ti-ddr4.json";

MainResult PlanWith(std::vector<std::string> flags) {
  std::vector<std::string> args = {"plan", "--machine", kLikeMachine};
  args.insert(args.end(), flags.begin(), flags.end());
  return RunMain(args);
}

std::string TakeText(const std::string& path) {
  std::ifstream in(path);
  std::string text(std::istreambuf_iterator<char>(in), {});
  std::remove(path.c_str());
  return text;
}

// The same plan, to the byte, without the weights.
TEST(LikeModel, HasThePlanOfWhatSynthWrites) {
  const std::string model = TempPath("like.gguf");
  const std::string path = TempPath("like_plan.json");
  struct Case {
    std::vector<std::string> synth, like;  // the flags of each
  };
  const std::vector<Case> cases = {
      {{"--like", "tiny"}, {"--like", "tiny"}},
      {{"--like", "tiny", "--type", "f16", "--layers", "1", "--seed", "7",
        "--density", "0.2", "--skew", "0.4"},
       {"--like", "tiny", "--as", "f16", "--layers", "1", "--seed", "7",
        "--density", "0.2", "--skew", "0.4"}},
      {{"--like", "tiny-opt"}, {"--like", "tiny-opt"}},
      {{"--like", "tiny-mixtral", "--expert-skew", "0.5"},
       {"--like", "tiny-mixtral", "--expert-skew", "0.5"}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(::testing::PrintToString(one.like));
    std::vector<std::string> args = {"synth", "-o", model, "-t", "1"};
    args.insert(args.end(), one.synth.begin(), one.synth.end());
    ASSERT_EQ(RunMain(args).exit_code, 0);
    const std::vector<std::string> common = {"--vram", "1300KiB", "-c",
                                             "256",    "-o",      path};
    std::vector<std::string> flags = one.like;
    flags.insert(flags.end(), common.begin(), common.end());
    const MainResult like = PlanWith(flags);
    ASSERT_EQ(like.exit_code, 0) << like.err;
    EXPECT_THAT(like.out, HasSubstr("model     like tiny"));
    const std::string of_like = TakeText(path);
    flags = {"-m", model};
    flags.insert(flags.end(), common.begin(), common.end());
    const MainResult file = PlanWith(flags);
    ASSERT_EQ(file.exit_code, 0) << file.err;
    EXPECT_EQ(of_like, TakeText(path));
    EXPECT_THAT(of_like, HasSubstr("budget_bytes\": 1331200"));
    std::remove(model.c_str());
  }
}

TEST(LikeModel, IsTheShapeThatIsAskedFor) {
  const auto model = ModelLike(
      {.shape = "llama-7b", .dtype = DType::kF16, .num_layers = 2}, {}, {});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->config().num_layers, 2u);
  EXPECT_EQ((*model)->config().layers[0].ffn.width, 11008u);
  EXPECT_EQ((*model)->weights().layers[1].attention.q.dtype, DType::kF16);
  EXPECT_EQ(DescribeLike(**model),
            "like llama-7b, 2 layers, F16, density 0.1, skew 0.26, locality "
            "0.6, seed 1");
  // Where no text could be as steady as the default.
  EXPECT_TRUE(
      ModelLike({.shape = "tiny", .density = 0.5f, .skew = 0.6f}, {}, {}));
}

TEST(LikeModel, RefusesWhatDoesNotGoTogether) {
  struct Case {
    std::vector<std::string> flags;
    int exit_code;
    const char* message;
  };
  const std::string plan = TempPath("p.json");
  std::ofstream(plan) << "thermocline-plan";
  const std::vector<Case> cases = {
      {{"--like", "tiny", "-m", kLlamaF16}, 2, "not with -m"},
      {{}, 2, "-m says which model, or --like what shape"},
      {{"-m", kLlamaF16, "--density", "0.2"}, 2, "--density requires --like"},
      {{"-m", kLlamaF16, "--seed", "2"}, 2, "--seed requires --like"},
      {{"--like", "tiny", "--mlock"}, 2, "about weights"},
      {{"--like", "tinny"}, 1, "no model \"tinny\" to make one like"},
      {{"--like", "tiny", "--density", "0.9"}, 1, "above 0, to 0.5"},
      {{"--like", "tiny", "--layers", "99"}, 1, "it has 2"},
      {{"--like", "tiny", "--expert-skew", "0.5"}, 1, "has no experts"},
      {{"--like", "tiny", "--as", "q5_0"}, 2, "q5_0"},
      {{"--like", "tiny", "--plan", plan}, 2, "this one makes plans"}};
  for (const Case& one : cases) {
    const MainResult run = PlanWith(one.flags);
    EXPECT_EQ(run.exit_code, one.exit_code) << one.message;
    EXPECT_THAT(run.err, HasSubstr(one.message));
  }
}

}  // namespace
}  // namespace thermocline::cli
