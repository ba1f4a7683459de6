#include "engine/ffn/predictor_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/session.h"
#include "engine/testing/test_predictor_parts.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using testing::PredictorParts;
using testing::TinySpec;

TinySpec SpecOf(uint64_t seed) {
  TinySpec spec;
  spec.activation = "relu";
  spec.num_layers = 4;
  spec.seed = seed;
  return spec;
}

std::shared_ptr<const model::Model> OpenBundled(const TinySpec& spec) {
  const auto model = testing::OpenTinyModel(spec, {.bundle_at_load = true});
  EXPECT_TRUE(model.has_value()) << model.error().message;
  return model.value_or(nullptr);
}

// Opens a session on a model with these parts.
Status OpenWith(const std::shared_ptr<const model::Model>& source,
                const PredictorParts& parts, FfnMode mode = FfnMode::kAuto,
                PredictorChoice predictor = PredictorChoice::kAuto,
                int64_t batch = SessionOptions().batch) {
  TC_ASSIGN_OR_RETURN(const auto model, testing::OpenWithParts(*source, parts));
  TC_ASSIGN_OR_RETURN(const auto session,
                      Session::Create(model, {.num_threads = 2,
                                              .batch = batch,
                                              .ffn = mode,
                                              .predictor = predictor}));
  EXPECT_EQ(session->ffn(), mode == FfnMode::kAuto ? FfnMode::kFast : mode);
  return {};
}

TEST(SelfTest, PredictorsOfTheModelPass) {
  const auto model = OpenBundled(SpecOf(1));
  ASSERT_NE(model, nullptr);
  for (const size_t lookahead : {0, 1}) {
    PredictorParts parts(SpecOf(1), lookahead);
    parts.Gather(model);
    const Status status = OpenWith(model, parts);
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
}

// Samples are tested as many at once as the session has room for.
TEST(SelfTest, OfSessionsWithSmallBatches) {
  const auto model = OpenBundled(SpecOf(1));
  const auto other = OpenBundled(SpecOf(2));
  ASSERT_TRUE(model != nullptr && other != nullptr);
  PredictorParts parts(SpecOf(1));
  parts.Gather(model);
  for (const int64_t batch : {1, 3}) {
    const auto open_with = [&](const auto& source) {
      return OpenWith(source, parts, FfnMode::kAuto, PredictorChoice::kAuto,
                      batch);
    };
    const Status status = open_with(model);
    EXPECT_TRUE(status.has_value()) << status.error().message;
    EXPECT_FALSE(open_with(other).has_value());
  }
}

// Of a mixture, one expert stands for a layer.
TEST(SelfTest, TellsMixturesApart) {
  TinySpec spec = SpecOf(1);
  testing::UseArchitecture("mixtral", spec);
  TinySpec other_spec = spec;
  other_spec.seed = 2;
  const auto model = OpenBundled(spec);
  const auto other = OpenBundled(other_spec);
  ASSERT_TRUE(model != nullptr && other != nullptr);
  PredictorParts parts(spec);
  parts.Gather(model);
  const Status status = OpenWith(model, parts);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  const Status refused = OpenWith(other, parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("neurons that fired"));
  parts.SpoilCandidates();
  const Status spoilt = OpenWith(model, parts);
  ASSERT_FALSE(spoilt.has_value());
  EXPECT_THAT(spoilt.error().message, HasSubstr("candidates when layer 3"));
}

// Which experts a layer uses is not known before it.
TEST(SelfTest, MixturesDoNotLookAhead) {
  TinySpec spec = SpecOf(1);
  testing::UseArchitecture("mixtral", spec);
  const auto model = OpenBundled(spec);
  ASSERT_NE(model, nullptr);
  PredictorParts parts(spec, 1);
  parts.Gather(model);
  const Status refused = OpenWith(model, parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("lookahead"));
}

TEST(SelfTest, PredictorsOfAnotherModelAreRefused) {
  const auto model = OpenBundled(SpecOf(1));
  const auto other = OpenBundled(SpecOf(2));
  ASSERT_TRUE(model != nullptr && other != nullptr);
  PredictorParts parts(SpecOf(1));
  parts.Gather(model);
  const Status refused = OpenWith(other, parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("another model"));
  EXPECT_THAT(refused.error().message, HasSubstr("neurons that fired"));
  EXPECT_TRUE(OpenWith(other, parts, FfnMode::kExact).has_value());
}

TEST(SelfTest, SignsOfAnotherModelAreRefused) {
  const auto model = OpenBundled(SpecOf(1));
  const auto other = OpenBundled(SpecOf(2));
  ASSERT_TRUE(model != nullptr && other != nullptr);
  PredictorParts parts(SpecOf(1));
  parts.Gather(model);
  parts.SpoilCandidates();  // of the trained predictor, which is not used
  for (const bool has_signs : {true, false}) {
    parts.has_signs = has_signs;
    const auto open_with = [&](const auto& source) {
      return OpenWith(source, parts, FfnMode::kFast,
                      PredictorChoice::kTrainingFree);
    };
    const Status own = open_with(model);
    EXPECT_TRUE(own.has_value()) << own.error().message;
    const Status refused = open_with(other);
    // Without signs in the file they are taken from the model itself.
    ASSERT_EQ(refused.has_value(), !has_signs);
    if (!has_signs) continue;
    EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(refused.error().message, HasSubstr("agree by "));
  }
}

// Signs that name others than they did are noticed where they are used.
TEST(SelfTest, OtherSignsAreRefused) {
  for (const bool is_mixture : {false, true}) {
    TinySpec spec = SpecOf(1);
    if (is_mixture) testing::UseArchitecture("mixtral", spec);
    const auto model = OpenBundled(spec);
    ASSERT_NE(model, nullptr);
    PredictorParts parts(spec);
    parts.has_signs = parts.spoils_signs = true;
    parts.Gather(model);
    const Status refused =
        OpenWith(model, parts, FfnMode::kFast, PredictorChoice::kTrainingFree);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(refused.error().message, HasSubstr("candidates when layer 0"));
    const Status trained =
        OpenWith(model, parts, FfnMode::kFast, PredictorChoice::kTrained);
    EXPECT_TRUE(trained.has_value()) << trained.error().message;
  }
}

TEST(SelfTest, OtherPredictorsAreRefused) {
  const auto model = OpenBundled(SpecOf(1));
  ASSERT_NE(model, nullptr);
  PredictorParts parts(SpecOf(1));
  parts.Gather(model);
  parts.SpoilCandidates();
  const Status refused = OpenWith(model, parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("candidates when layer 3"));
}

}  // namespace
}  // namespace thermocline::engine
