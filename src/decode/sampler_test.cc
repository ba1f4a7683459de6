#include "decode/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/remedy.h"

namespace thermocline::decode {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Every step off, seed 1.
SamplerOptions Off() {
  SamplerOptions options;
  options.temperature = 1.0f;
  options.top_k = 0;
  options.top_p = 1.0f;
  options.min_p = 0.0f;
  options.seed = 1;
  return options;
}

std::unique_ptr<Sampler> Make(const SamplerOptions& options,
                              size_t vocab_size) {
  auto sampler = Sampler::Create(options, vocab_size);
  EXPECT_TRUE(sampler.has_value()) << sampler.error().message;
  return *std::move(sampler);
}

// How often each id is drawn.
std::map<int, int> Draws(const SamplerOptions& options,
                         const std::vector<float>& logits, int count = 2000) {
  const auto sampler = Make(options, logits.size());
  std::map<int, int> draws;
  for (int i = 0; i < count; ++i) ++draws[sampler->Sample(logits)];
  return draws;
}

std::set<int> Drawn(const SamplerOptions& options,
                    const std::vector<float>& logits) {
  std::set<int> ids;
  for (const auto& [id, count] : Draws(options, logits)) ids.insert(id);
  return ids;
}

std::vector<float> LogsOf(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return probabilities;
}

TEST(Sampler, GreedyTakesTheFirstOfTheBest) {
  SamplerOptions options;
  options.temperature = 0.0f;
  const auto sampler = Make(options, 5);
  EXPECT_EQ(sampler->Sample(std::vector<float>{1, 5, 2, 5, 0}), 1);
  EXPECT_EQ(sampler->Sample(std::vector<float>{-1, -5, -2, -5, -1}), 0);
}

TEST(Sampler, DrawsByProbability) {
  const auto draws = Draws(Off(), LogsOf({0.1f, 0.6f, 0.3f}), 20000);
  EXPECT_NEAR(draws.at(0) / 20000.0, 0.1, 0.01);
  EXPECT_NEAR(draws.at(1) / 20000.0, 0.6, 0.015);
  EXPECT_NEAR(draws.at(2) / 20000.0, 0.3, 0.015);
}

TEST(Sampler, TemperatureScalesLogits) {
  SamplerOptions options = Off();
  options.temperature = 0.5f;  // squares the probabilities: 1 : 4
  const auto draws = Draws(options, LogsOf({1.0f, 2.0f}), 20000);
  EXPECT_NEAR(draws.at(1) / 20000.0, 0.8, 0.015);
}

// The documented draw: the first id whose cumulative weight passes the number
// made of the top 27 and 26 bits of two outputs of the generator.
TEST(Sampler, TheDrawIsTheDocumentedOne) {
  const std::vector<float> logits = LogsOf({0.25f, 0.25f, 0.25f, 0.25f});
  SamplerOptions options = Off();
  options.seed = 42;
  const auto sampler = Make(options, 4);
  std::mt19937 generator(42);
  for (int i = 0; i < 100; ++i) {
    const uint64_t high = generator() >> 5;
    const uint64_t low = generator() >> 6;
    const double uniform =
        static_cast<double>(high * 67108864 + low) / 9007199254740992.0;
    EXPECT_EQ(sampler->Sample(logits), static_cast<int>(uniform * 4));
  }
}

TEST(Sampler, SameSeedSameTokens) {
  Random random(3);
  std::vector<float> logits(500);
  for (float& logit : logits) logit = random.Uniform(-4.0f, 4.0f);
  SamplerOptions options;
  options.seed = 7;
  const auto a = Make(options, 500);
  const auto b = Make(options, 500);
  options.seed = 8;
  const auto other = Make(options, 500);
  bool all_same = true;
  for (int i = 0; i < 200; ++i) {
    const int id = a->Sample(logits);
    EXPECT_EQ(id, b->Sample(logits));
    all_same = all_same && id == other->Sample(logits);
  }
  EXPECT_FALSE(all_same);
  EXPECT_EQ(a->seed(), 7u);
}

TEST(Sampler, TheRandomSeedIsToldAndRepeatable) {
  SamplerOptions options;  // seed left at its default
  const auto first = Make(options, 100);
  options.seed = first->seed();
  const auto again = Make(options, 100);
  const std::vector<float> logits(100, 1.0f);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(first->Sample(logits), again->Sample(logits));
  }
}

TEST(Sampler, TopK) {
  SamplerOptions options = Off();
  options.top_k = 2;
  EXPECT_EQ(Drawn(options, {0.1f, 0.5f, 0.2f, 0.4f}), (std::set{1, 3}));
  options.top_k = 100;
  EXPECT_EQ(Drawn(options, {0.1f, 0.5f, 0.2f, 0.4f}).size(), 4u);
  options.top_k = 1;
  EXPECT_EQ(Drawn(options, {1.0f, 1.0f, 1.0f}), (std::set{0}));
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  const auto logits = LogsOf({0.15f, 0.5f, 0.05f, 0.3f});
  SamplerOptions options = Off();
  options.top_p = 0.79f;
  EXPECT_EQ(Drawn(options, logits), (std::set{1, 3}));
  options.top_p = 0.81f;
  EXPECT_EQ(Drawn(options, logits), (std::set{0, 1, 3}));
  options.top_p = 0.5f - 1e-3f;
  EXPECT_EQ(Drawn(options, logits), (std::set{1}));
  options.top_p = 0.0f;
  EXPECT_EQ(Drawn(options, logits), (std::set{1}));
}

TEST(Sampler, TopPOfALongFlatList) {
  // 1000 equal ones: the first 700 by id; more than one step of sorting.
  SamplerOptions options = Off();
  options.top_p = 0.6999f;
  const auto ids = Drawn(options, std::vector<float>(1000, 2.0f));
  EXPECT_GT(ids.size(), 500u);
  EXPECT_LT(*ids.rbegin(), 700);
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  const auto logits = LogsOf({0.1f, 0.5f, 0.04f, 0.36f});
  SamplerOptions options = Off();
  options.min_p = 0.19f;  // of 0.5: 0.095
  EXPECT_EQ(Drawn(options, logits), (std::set{0, 1, 3}));
  options.min_p = 0.21f;
  EXPECT_EQ(Drawn(options, logits), (std::set{1, 3}));
  options.min_p = 2.0f;  // the best always stays
  EXPECT_EQ(Drawn(options, logits), (std::set{1}));
}

TEST(Sampler, FiltersComeBeforeTheTemperature) {
  // At temperature 10 all are nearly alike; top-p and min-p do not see that.
  const auto logits = LogsOf({0.9f, 0.06f, 0.04f});
  SamplerOptions options = Off();
  options.temperature = 10.0f;
  options.top_p = 0.95f;
  EXPECT_EQ(Drawn(options, logits), (std::set{0, 1}));
  options.top_p = 1.0f;
  options.min_p = 0.05f;
  EXPECT_EQ(Drawn(options, logits), (std::set{0, 1}));
}

TEST(Sampler, RepeatPenaltyDividesOrMultiplies) {
  SamplerOptions options = Off();
  options.temperature = 0.0f;
  options.repeat_penalty = 2.0f;
  const auto sampler = Make(options, 3);
  sampler->Accept(0);
  EXPECT_EQ(sampler->Sample(std::vector<float>{3.0f, 2.0f, 0.0f}), 1);
  EXPECT_EQ(sampler->Sample(std::vector<float>{5.0f, 2.0f, 0.0f}), 0);
  EXPECT_EQ(sampler->Sample(std::vector<float>{-1.0f, -1.5f, -9.0f}), 1);
  EXPECT_EQ(sampler->Sample(std::vector<float>{-1.0f, -2.5f, -9.0f}), 0);
  sampler->Accept(0);  // does not count twice
  EXPECT_EQ(sampler->Sample(std::vector<float>{5.0f, 2.0f, 0.0f}), 0);
}

TEST(Sampler, FrequencyCountsAndPresenceDoesNot) {
  SamplerOptions options = Off();
  options.temperature = 0.0f;
  options.frequency_penalty = 1.0f;
  options.presence_penalty = 0.5f;
  const auto sampler = Make(options, 2);
  sampler->Accept(0);
  EXPECT_EQ(sampler->Sample(std::vector<float>{1.6f, 0.0f}), 0);
  EXPECT_EQ(sampler->Sample(std::vector<float>{1.4f, 0.0f}), 1);
  sampler->Accept(0);
  EXPECT_EQ(sampler->Sample(std::vector<float>{2.6f, 0.0f}), 0);
  EXPECT_EQ(sampler->Sample(std::vector<float>{2.4f, 0.0f}), 1);
}

TEST(Sampler, PenaltiesForgetWhatIsPastTheWindow) {
  const std::vector<float> logits = {1.0f, 0.9f, 0.0f};
  SamplerOptions options = Off();
  options.temperature = 0.0f;
  options.presence_penalty = 0.5f;
  options.repeat_last_n = 2;
  const auto window = Make(options, 3);
  for (const int id : {0, 2}) window->Accept(id);
  EXPECT_EQ(window->Sample(logits), 1);
  window->Accept(2);
  EXPECT_EQ(window->Sample(logits), 0);
  options.repeat_last_n = -1;
  const auto all = Make(options, 3);
  all->Accept(0);
  for (int i = 0; i < 1000; ++i) all->Accept(2);
  EXPECT_EQ(all->Sample(logits), 1);
  options.repeat_last_n = 0;
  const auto none = Make(options, 3);
  none->Accept(0);
  EXPECT_EQ(none->Sample(logits), 0);
}

// Long after the first tokens have left it.
TEST(Sampler, WindowsOfEveryLengthMoveOn) {
  const std::vector<float> logits = {0.4f, 0.3f, 0.2f, 0.1f, 0.0f};
  SamplerOptions options = Off();
  options.temperature = 0.0f;
  options.frequency_penalty = 1.0f;
  for (const size_t length : {1, 3, 5, 6, 7}) {
    options.repeat_last_n = static_cast<int>(length);
    const auto sampler = Make(options, logits.size());
    Random random(length);
    std::vector<int> accepted;
    for (int i = 0; i < 50; ++i) {
      accepted.push_back(static_cast<int>(random.Below(logits.size())));
      sampler->Accept(accepted.back());
      std::vector<float> penalised = logits;
      const size_t num_seen = std::min(length, accepted.size());
      for (size_t k = accepted.size() - num_seen; k < accepted.size(); ++k) {
        penalised[static_cast<size_t>(accepted[k])] -= 1.0f;
      }
      EXPECT_EQ(sampler->Sample(logits),
                std::ranges::max_element(penalised) - penalised.begin())
          << length << " tokens, step " << i;
    }
  }
}

TEST(Sampler, LogitsThatAreNotFinite) {
  const float nan = std::nanf("");
  for (const float temperature : {0.0f, 1.0f}) {
    SamplerOptions options;
    options.temperature = temperature;
    options.seed = 1;
    options.repeat_penalty = 1.5f;
    options.presence_penalty = 0.1f;
    const auto sampler = Make(options, 4);
    sampler->Accept(1);
    EXPECT_EQ(sampler->Sample(std::vector<float>{nan, nan, 1.0f, nan}), 2);
    EXPECT_EQ(sampler->Sample(std::vector<float>{-kInf, -1, -kInf, nan}), 1);
    EXPECT_EQ(sampler->Sample(std::vector<float>{0, 1, 2, kInf}), 3);
    for (const float all : {nan, kInf, -kInf}) {
      const int id = sampler->Sample(std::vector<float>(4, all));
      EXPECT_GE(id, 0);
      EXPECT_LT(id, 4);
    }
  }
}

// Candidates that are not numbers would have no order.
TEST(Sampler, PenaltiesThatOverflow) {
  SamplerOptions options = Off();
  options.temperature = 0.0f;
  options.repeat_penalty = 3e38f;
  options.frequency_penalty = options.presence_penalty = -3e38f;
  const auto sampler = Make(options, 3);
  sampler->Accept(0);
  EXPECT_EQ(sampler->Sample(std::vector<float>{-10.0f, 1.0f, 2.0f}), 2);
}

TEST(Sampler, LogitsOfMinusInfinityAreNeverDrawn) {
  SamplerOptions options = Off();
  options.temperature = 100.0f;
  EXPECT_EQ(Drawn(options, {-kInf, 1.0f, -kInf, 2.0f}), (std::set{1, 3}));
}

TEST(Sampler, RefusesOptionsByName) {
  const auto refused = [](auto change, Remedy remedy) {
    SamplerOptions options;
    change(options);
    const auto sampler = Sampler::Create(options, 10);
    ASSERT_FALSE(sampler.has_value());
    EXPECT_EQ(sampler.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(sampler.error().advice.remedy, remedy) << sampler.error().message;
  };
  const float nan = std::nanf("");
  using Options = SamplerOptions;
  refused([&](Options& o) { o.temperature = nan; }, Remedy::kTemperature);
  refused([&](Options& o) { o.temperature = kInf; }, Remedy::kTemperature);
  refused([&](Options& o) { o.top_p = nan; }, Remedy::kTopP);
  refused([&](Options& o) { o.min_p = nan; }, Remedy::kMinP);
  refused([&](Options& o) { o.repeat_penalty = 0.0f; }, Remedy::kRepeatPenalty);
  refused([&](Options& o) { o.repeat_penalty = -1.0f; },
          Remedy::kRepeatPenalty);
  refused([&](Options& o) { o.presence_penalty = nan; },
          Remedy::kPresencePenalty);
  refused([&](Options& o) { o.frequency_penalty = kInf; },
          Remedy::kFrequencyPenalty);
  refused([&](Options& o) { o.repeat_last_n = -2; }, Remedy::kRepeatLastN);
  refused([&](Options& o) { o.repeat_last_n = INT32_MAX; },
          Remedy::kRepeatLastN);
}

}  // namespace
}  // namespace thermocline::decode
