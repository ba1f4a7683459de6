#include "cli/eval_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(EvalCommandTest, HelpNamesItsCommands) {
  const MainResult result = RunMain({"eval", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* name : {"logits", "ppl", "kl", "sparsity", "mc"}) {
    EXPECT_THAT(result.out, HasSubstr(std::string("  ") + name));
  }
  EXPECT_EQ(RunMain({"eval"}).exit_code, 2);
}

TEST(InModesTest, APredictorIsForTheModesThatAskOne) {
  using enum engine::FfnMode;
  using engine::PredictorChoice;
  const auto predictors = [](std::vector<engine::FfnMode> modes) {
    std::vector<PredictorChoice> out;
    for (const engine::SessionOptions& options :
         InModes({.context = 7, .predictor = PredictorChoice::kTrainingFree},
                 modes)) {
      EXPECT_EQ(options.context, 7);
      EXPECT_EQ(options.ffn, modes[out.size()]);
      out.push_back(options.predictor);
    }
    return out;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(
      predictors({kDense, kFast, kExact, kAuto}),
      ElementsAre(PredictorChoice::kAuto, PredictorChoice::kTrainingFree,
                  PredictorChoice::kAuto, PredictorChoice::kTrainingFree));
  // For the engine to refuse.
  EXPECT_THAT(predictors({kDense, kExact}),
              ElementsAre(PredictorChoice::kTrainingFree,
                          PredictorChoice::kTrainingFree));
}

TEST(CheckSessionsFitTest, AddsUpSessionsAndLogits) {
  const engine::MemoryPlan needs[] = {{.host = {.kv = 1024, .scratch = 512}},
                                      {.host = {.kv = 256, .scratch = 128}}};
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(CheckSessionsFit(needs, 128, 0, 2048).has_value());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "memory of 2 sessions and their logits: 2.00 KiB\n");
  const Status refused = CheckSessionsFit(needs, 129, 0, 2048);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message,
              HasSubstr("2 sessions and their logits need 2.00 KiB, more "
                        "than the 2.00 KiB of RAM that there are"));
  const engine::MemoryPlan most = {.host = {.kv = ~uint64_t{0}}};
  EXPECT_FALSE(CheckSessionsFit({{most, most}}, 0, 0, 2048).has_value());
}

TEST(CheckSessionsFitTest, CountsWeightsInRam) {
  const engine::MemoryPlan needs[] = {{.host = {.kv = 1024, .scratch = 0}}};
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(CheckSessionsFit(needs, 512, 512, 2048).has_value());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "memory of 1 session, their logits and the weights: 2.00 "
            "KiB\n");
  EXPECT_FALSE(CheckSessionsFit(needs, 512, 513, 2048).has_value());
  EXPECT_FALSE(CheckSessionsFit(needs, 512, ~uint64_t{0}, 2048).has_value());
}

}  // namespace
}  // namespace thermocline::cli
