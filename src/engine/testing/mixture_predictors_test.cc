// Predictors of mixtures in whole models.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "engine/testing/test_predictor_parts.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::DecodeAll;
using testing::PredictorParts;
using testing::TinySpec;

TinySpec MixtureSpec() {
  TinySpec spec;
  testing::UseArchitecture("mixtral", spec);
  spec.num_layers = 3;
  spec.activation = "relu";
  return spec;
}

std::shared_ptr<const model::Model> MakeMixture(const PredictorParts& parts) {
  const auto source =
      testing::OpenTinyModel(MixtureSpec(), {.bundle_at_load = true});
  if (!source.has_value()) return nullptr;
  auto model = testing::OpenWithParts(**source, parts);
  EXPECT_TRUE(model.has_value()) << model.error().message;
  return model.value_or(nullptr);
}

PredictorParts PartsOfMixture() {
  PredictorParts parts(MixtureSpec());
  const auto source =
      testing::OpenTinyModel(MixtureSpec(), {.bundle_at_load = true});
  if (source.has_value()) parts.Gather(*source);
  return parts;
}

// In each expert that the router chose, what its predictor says of its input.
TEST(MixturePredictors, ChooseInsideTheChosenExperts) {
  const PredictorParts parts = PartsOfMixture();
  const auto model = MakeMixture(parts);
  ASSERT_NE(model, nullptr);
  SessionOptions options = {.num_threads = 2};
  size_t num_candidates = 0;
  size_t num_all = 0;
  options.observer = [&](const FfnObservation& seen) {
    ASSERT_EQ(seen.experts.size(), 2u);
    std::vector<uint32_t> unsure;
    const auto expected = parts.Candidates(seen.layer_idx, seen.input,
                                           seen.experts, 1e-4, &unsure);
    EXPECT_TRUE(std::ranges::includes(seen.candidates, expected));
    for (const uint32_t i : seen.candidates) {
      EXPECT_TRUE(std::ranges::binary_search(expected, i) ||
                  std::ranges::binary_search(unsure, i))
          << i;
    }
    EXPECT_TRUE(std::ranges::includes(seen.candidates, seen.fired));
    num_candidates += seen.candidates.size();
    num_all += 2 * MaxFfnWidth(model->config());
  };
  const auto session = Session::Create(model, options);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  EXPECT_EQ((*session)->ffn(), FfnMode::kFast);
  DecodeAll(model, testing::RandomTokens(11, 50), options);
  EXPECT_GT(num_candidates, num_all / 4);
  EXPECT_LT(num_candidates, num_all * 3 / 4);
}

TEST(MixturePredictors, SameBitsForEveryThreadCountAndCut) {
  const auto model = MakeMixture(PartsOfMixture());
  ASSERT_NE(model, nullptr);
  const auto tokens = testing::RandomTokens(19, 50);
  for (const auto predictor :
       {PredictorChoice::kAuto, PredictorChoice::kTrainingFree}) {
    SessionOptions options = {
        .num_threads = 2, .ffn = FfnMode::kFast, .predictor = predictor};
    const auto expected = DecodeAll(model, tokens, options);
    const auto exact = DecodeAll(model, tokens, {.ffn = FfnMode::kExact});
    const double nmse = testing::Nmse(expected, std::span<const float>(exact));
    EXPECT_GT(nmse, 1e-8);  // some of what fires is missing
    EXPECT_LT(nmse, 1.0);
    for (const int num_threads : {1, 3}) {
      for (const int64_t batch : {1, 3, 19}) {
        options.num_threads = num_threads;
        options.batch = batch;
        EXPECT_EQ(DecodeAll(model, tokens, options), expected) << batch;
      }
    }
  }
}

// Signs of all experts' gates, made when the session opens.
TEST(MixturePredictors, NoneAreNeededForSigns) {
  const TinySpec spec = MixtureSpec();
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  SessionOptions options = {.ffn = FfnMode::kFast,
                            .predictor = PredictorChoice::kTrainingFree};
  const auto need = PlanMemory(model->config(), options);
  ASSERT_TRUE(need.has_value());
  EXPECT_EQ(need->host.signs,
            (spec.num_layers * spec.num_experts * spec.ffn_width) * 2 * 8);
  using Place = std::pair<size_t, int64_t>;
  std::map<Place, std::vector<uint32_t>> candidates;
  options.observer = [&](const FfnObservation& seen) {
    candidates[{seen.layer_idx, seen.position}] = {seen.candidates.begin(),
                                                   seen.candidates.end()};
  };
  const auto tokens = testing::RandomTokens(9, spec.vocab_size);
  DecodeAll(model, tokens, options);
  // What the first layer fires does not depend on the mode: signs guess most.
  size_t num_fired = 0;
  size_t num_found = 0;
  SessionOptions exact = {.ffn = FfnMode::kExact};
  exact.observer = [&](const FfnObservation& seen) {
    if (seen.layer_idx > 0) return;
    num_fired += seen.fired.size();
    for (const uint32_t i : candidates[{0, seen.position}]) {
      num_found += std::ranges::binary_search(seen.fired, i) ? 1 : 0;
    }
  };
  DecodeAll(model, tokens, exact);
  EXPECT_GT(num_fired, 100u);
  EXPECT_GT(num_found, num_fired * 6 / 10);
  EXPECT_LT(num_found, num_fired);
}

}  // namespace
}  // namespace thermocline::engine
