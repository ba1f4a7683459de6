// A device that fails while it attends: whoever notices says so, and nothing
// that is half done is taken for whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/testing/test_placement.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using testing::PlacedParts;
using testing::PlacedRun;
using Floats = std::vector<float>;

constexpr PlacedParts kAllParts = {.predictors = true, .neurons = true};

// With predictors, of the layer and of the next one.
class HybridAttentionFaults : public ::testing::TestWithParam<bool> {
 protected:
  HybridAttentionFaults() {
    testing::TinySpec spec;
    testing::UseArchitecture("bamboo", spec);
    spec.low_ranks = {8, 8};
    spec.both_downs = true;
    model_ = testing::MakeTinyModel(spec);
  }

  std::shared_ptr<device::SimDevice> MakeDevice(device::SimOptions options) {
    options.is_late = GetParam();
    return device::MakeSim(device::TestMachine(), options);
  }

  // A prompt and 3 rows, which may fail, and once more where it did; then one.
  struct Outcome {
    Status first, second;
    Floats logits;  // if no error was left
    uint64_t num_calls_before = 0;
    uint64_t num_calls = 0;
  };
  Outcome Run(const device::SimOptions& options) {
    const SessionOptions session = {
        .num_threads = 1, .ffn = FfnMode::kFast, .dense_prompts = true};
    const auto device = MakeDevice(options);
    Outcome outcome;
    PlacedRun run(model_, session, device, kAllParts);
    outcome.num_calls_before = device->num_calls();
    outcome.first = run.status();
    if (!outcome.first) return outcome;
    EXPECT_TRUE(run.Run({1, 2, 3, 4, 5}, Phase::kPrompt));
    auto logits = run.Run({6, 7, 8}, Phase::kGenerate);
    outcome.num_calls = device->num_calls();
    if (!logits) {
      outcome.first = tl::unexpected(logits.error());
      EXPECT_EQ(run.sequence().length(), 5);
      logits = run.Run({6, 7, 8}, Phase::kGenerate);
    }
    if (logits) {
      outcome.logits = *logits;
      logits = run.Run({9}, Phase::kGenerate);
    }
    if (!logits) {
      outcome.second = tl::unexpected(logits.error());
      return outcome;
    }
    outcome.logits.insert(outcome.logits.end(), logits->begin(), logits->end());
    return outcome;
  }

  std::shared_ptr<const model::Model> model_;
};

TEST_P(HybridAttentionFaults, EndThePassAndNoMore) {
  ASSERT_NE(model_, nullptr);
  const Outcome good = Run({});
  ASSERT_TRUE(good.first && good.second);
  ASSERT_GT(good.num_calls, good.num_calls_before + 30);
  for (uint64_t n = good.num_calls_before + 1; n <= good.num_calls; ++n) {
    const Outcome failed = Run({.fail_call = n});
    ASSERT_FALSE(failed.first) << n;
    EXPECT_THAT(failed.first.error().message, HasSubstr("sim0: "));
    ASSERT_TRUE(failed.second) << n << failed.second.error().message;
    EXPECT_EQ(failed.logits, good.logits) << n;
    const Outcome lost = Run({.lose_at = n});
    ASSERT_FALSE(lost.first) << n;
    EXPECT_THAT(lost.first.error().message, HasSubstr("lost"));
    EXPECT_FALSE(lost.second) << n;
  }
}

TEST_P(HybridAttentionFaults, EndTheMakingOfAnEngine) {
  ASSERT_NE(model_, nullptr);
  const uint64_t num_calls = Run({}).num_calls_before;
  for (uint64_t n = 1; n <= num_calls; n += n < 20 ? 1 : 7) {
    EXPECT_FALSE(Run({.fail_call = n}).first) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Work, HybridAttentionFaults, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Late" : "AtOnce";
                         });

// A pass that was cancelled between layers leaves nothing behind either.
TEST(HybridAttentionCancelled, GoesOnAsIfItHadNotBeen) {
  testing::TinySpec spec;
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const auto talk = [&](bool is_cancelled) {
    PlacedRun run(model, {.num_threads = 1}, testing::MakeLateSim());
    EXPECT_TRUE(run.Run({1, 2, 3}, Phase::kPrompt));
    if (is_cancelled) {
      std::atomic<bool> cancel = false;
      const std::vector<text::TokenId> tokens = {4, 5};
      const BatchRun rows = {&run.sequence(), tokens, Phase::kGenerate,
                             LogitsOf::kNone};
      const Status status = run.engine().Run(
          {{&rows, 1}}, {},
          {.cancel = &cancel,
           .layers_done = [&](size_t layer_idx) { cancel = layer_idx == 1; }});
      EXPECT_FALSE(status);
    }
    return run.Run({6, 7}, Phase::kGenerate).value();
  };
  EXPECT_EQ(talk(true), talk(false));
}

}  // namespace
}  // namespace thermocline::engine
