// Sequences that live as those of a server do, drawn: prompts and generated
// rows side by side, forks, rewrites, passes that are cancelled. A device that
// has the attention of some layers must follow them all.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "engine/testing/test_placement.h"

namespace thermocline::engine {
namespace {

using testing::PlacedRun;

constexpr int64_t kLifeContext = 200;
constexpr size_t kStoryWords = 50;
constexpr size_t kNumLives = 4;

class HybridLife {
 public:
  HybridLife(PlacedRun& run, uint64_t seed) : run_(run), random_(seed) {
    for (size_t i = 0; i < kNumLives; ++i) {
      lives_.emplace_back(&run.kv(), kLifeContext);
    }
  }

  // The logits of all rows of so many steps; the same for the same seed.
  std::vector<float> Tell(size_t num_steps) {
    for (size_t i = 0; i < num_steps; ++i) Step();
    return std::move(logits_);
  }

 private:
  size_t Below(size_t end) { return static_cast<size_t>(random_.Below(end)); }
  KvSequence& AnyLife() { return lives_[Below(kNumLives)]; }
  int64_t AnyLength(const KvSequence& life) {
    return static_cast<int64_t>(Below(static_cast<size_t>(life.length()) + 1));
  }

  void Step() {
    switch (Below(8)) {
      case 0: {
        KvSequence& life = AnyLife();
        return life.Truncate(AnyLength(life));
      }
      case 1: {
        const KvSequence& from = AnyLife();
        KvSequence fork = from.Fork(AnyLength(from));
        AnyLife() = std::move(fork);
        return;
      }
      case 2:
        return Pass(true);
      default:
        return Pass(false);
    }
  }

  // Some read prompts, others generate.
  void Pass(bool is_cancelled) {
    std::array<std::vector<text::TokenId>, kNumLives> tokens;
    std::vector<BatchRun> prompts, generated;
    for (size_t i = 0; i < kNumLives; ++i) {
      const bool is_prompt = Below(4) == 0;
      const bool is_there = Below(2) == 0;
      const size_t most = is_prompt ? 70 : 10;
      const auto room = static_cast<size_t>(kLifeContext - lives_[i].length());
      const size_t count = std::min(1 + Below(most), room);
      if (!is_there || count == 0) continue;
      tokens[i] =
          testing::RandomTokens(count, kStoryWords, random_.Next() >> 1);
      (is_prompt ? prompts : generated)
          .push_back({&lives_[i], tokens[i],
                      is_prompt ? Phase::kPrompt : Phase::kGenerate,
                      LogitsOf::kAll});
    }
    prompts.insert(prompts.end(), generated.begin(), generated.end());
    if (!prompts.empty()) RunPass(prompts, is_cancelled);
  }

  void RunPass(std::span<const BatchRun> runs, bool is_cancelled) {
    std::vector<float> logits(Batch{runs}.num_logit_rows() * kStoryWords);
    std::atomic<bool> cancel = false;
    const Status status = run_.engine().Run(
        {runs}, logits,
        {.cancel = &cancel, .layers_done = [&](size_t num_done) {
           cancel = is_cancelled && num_done == 1;
         }});
    EXPECT_EQ(status.has_value(), !is_cancelled);
    if (status) logits_.insert(logits_.end(), logits.begin(), logits.end());
  }

  PlacedRun& run_;
  Random random_;
  std::vector<KvSequence> lives_;
  std::vector<float> logits_;
};

std::vector<float> TellOf(PlacedRun& run, uint64_t seed) {
  EXPECT_TRUE(run.status()) << run.status().error().message;
  return HybridLife(run, seed).Tell(40);
}

TEST(HybridStories, AreLikeTheHosts) {
  testing::TinySpec spec;
  spec.context_length = kLifeContext;
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const SessionOptions options = {.num_threads = 1, .num_sequences = kNumLives};
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    PlacedRun host(model, options, nullptr);
    PlacedRun hybrid(model, options, testing::MakeLateSim(),
                     {.first = seed % 2});
    const std::vector<float> expected = TellOf(host, seed);
    EXPECT_GT(expected.size(), 100 * kStoryWords);
    EXPECT_LE(
        testing::Nmse(TellOf(hybrid, seed), std::span<const float>(expected)),
        1e-8);
    EXPECT_EQ(hybrid.kv().num_free(), hybrid.kv().num_pages());
  }
}

}  // namespace
}  // namespace thermocline::engine
