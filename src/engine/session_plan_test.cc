#include "engine/session_plan.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/units.h"
#include "engine/testing/tiny_model.h"
#include "os/topology.h"

namespace thermocline::engine {
namespace {

using testing::MakeTinyModel;
using testing::TinySpec;

model::Config SevenBillion() {
  model::Config config;
  config.context_length = 32768;
  config.num_layers = 32;
  config.width = 4096;
  config.ffn_width = 11008;
  config.num_heads = config.num_kv_heads = 32;
  config.key_width = config.value_width = 128;
  config.vocab_size = 32000;
  config.rope.width = 128;
  return config;
}

TEST(SessionPlan, ContextDefaultsToTheModelsAtMost4096) {
  model::Config config = SevenBillion();
  const auto long_one = PlanSession(config, {});
  ASSERT_TRUE(long_one.has_value());
  EXPECT_EQ(long_one->kv.context, 4096);
  config.context_length = 256;
  const auto short_one = PlanSession(config, {});
  ASSERT_TRUE(short_one.has_value());
  EXPECT_EQ(short_one->kv.context, 256);
  EXPECT_EQ(short_one->scratch.batch, 256);
  const auto asked = PlanSession(config, {.context = 300});
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->kv.context, 300);
}

TEST(SessionPlan, TheCacheLiesAsAttentionReadsIt) {
  const auto order = [](const SessionOptions& options) {
    return PlanSession(SevenBillion(), options)->kv.order;
  };
  SessionOptions options;
  options.isa = kernels::Isa::kAvx512Vnni;
  EXPECT_EQ(order(options), kernels::KvOrder::kRows);
  options.k_type = options.v_type = DType::kQ8_0;
  EXPECT_EQ(order(options), kernels::KvOrder::kGroups);
  options.isa = kernels::Isa::kScalar;
  EXPECT_EQ(order(options), kernels::KvOrder::kRows);
}

// Whoever asks what a session will need asks for the session's mode.
TEST(SessionPlan, TrainingFreePredictorsOfTheFileCount) {
  model::Config config = SevenBillion();
  config.ffn.activation = Activation::kRelu;
  const SessionOptions free = {.predictor = PredictorChoice::kFree};
  EXPECT_GT(PlanMemory(config, free)->sign_bytes, 0u);
  EXPECT_FALSE(PlanMemory(config, {.ffn = FfnMode::kFast}).has_value());
  config.has_free_predictors = true;
  EXPECT_EQ(PlanMemory(config, free)->sign_bytes, 0u);
  EXPECT_TRUE(PlanMemory(config, {.ffn = FfnMode::kFast}).has_value());
  EXPECT_EQ(PlanSession(config, {})->ffn.mode, FfnMode::kFast);
}

TEST(SessionPlan, ZeroThreadsAreThePhysicalCores) {
  const auto plan = PlanSession(SevenBillion(), {});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->scratch.num_threads, os::ReadTopology().num_cores);
}

TEST(SessionPlan, CountsTheKnownCacheOfA7BModel) {
  // 2 * 32 layers * 4096 wide * 2 bytes: half a MiB per position.
  const auto need = PlanMemory(SevenBillion(), {.context = 4096});
  ASSERT_TRUE(need.has_value());
  EXPECT_EQ(need->kv_bytes, 2 * kGiB);
  EXPECT_EQ(KvBytesPerToken(SevenBillion(), {}, 0), kMiB / 2);
  EXPECT_EQ(KvBytesPerToken(SevenBillion(), {}, 99), 100 * kMiB / 2);
}

TEST(SessionPlan, RefusesOptionsByName) {
  const model::Config config = SevenBillion();
  const auto message = [&](const SessionOptions& options) {
    const auto need = PlanMemory(config, options);
    EXPECT_FALSE(need.has_value());
    if (need.has_value()) return std::string();
    EXPECT_EQ(need.error().code, ErrorCode::kInvalidArgument);
    return need.error().message;
  };
  EXPECT_NE(message({.context = -1}).find("-c -1"), std::string::npos);
  EXPECT_NE(message({.batch = 0}).find("-b 0"), std::string::npos);
  EXPECT_NE(message({.num_threads = -2}).find("-t -2"), std::string::npos);
  EXPECT_NE(message({.num_threads = 100000}).find("-t"), std::string::npos);
  EXPECT_NE(message({.k_type = DType::kBF16}).find("-ctk"), std::string::npos);
}

TEST(SessionPlan, HugeContextsOverflowCleanly) {
  for (const int64_t context : {INT64_MAX, int64_t{1} << 50}) {
    const auto need =
        PlanMemory(SevenBillion(), {.context = context, .batch = context});
    ASSERT_FALSE(need.has_value());
    EXPECT_EQ(need.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(need.error().message.find("-c"), std::string::npos);
  }
}

TEST(SessionPlan, ComparesWithTheRam) {
  const auto plan = PlanSession(SevenBillion(), {.context = 8192});
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(CheckFits(*plan, plan->need.total()).has_value());
  const Status refused = CheckFits(*plan, 2 * kGiB);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  const std::string& message = refused.error().message;
  EXPECT_NE(message.find("4.00 GiB"), std::string::npos) << message;
  EXPECT_NE(message.find("2.00 GiB"), std::string::npos) << message;
  EXPECT_NE(message.find("-c"), std::string::npos) << message;
  EXPECT_NE(message.find("-ctk q8_0"), std::string::npos) << message;
}

TEST(SessionPlan, WeightBytesCountOneEmbeddingRow) {
  TinySpec spec;
  spec.num_layers = 1;
  const uint64_t layer_floats =
      96 + 96 * 96 + 2 * 96 * 32 + 96 * 96 + 96 + 3 * 96 * 160;
  const auto separate = MakeTinyModel(spec);
  ASSERT_NE(separate, nullptr);
  EXPECT_EQ(WeightBytesPerToken(*separate),
            4 * (layer_floats + 96 + 50 * 96 + 96));
  spec.tied = true;
  const auto tied = MakeTinyModel(spec);
  ASSERT_NE(tied, nullptr);
  EXPECT_EQ(WeightBytesPerToken(*tied), 4 * (layer_floats + 96 + 50 * 96));
}

TEST(SessionPlan, WeightBytesCountTheExpertsThatATokenUses) {
  TinySpec spec;
  spec.num_layers = 1;
  const auto dense = MakeTinyModel(spec);
  spec.num_experts = 5;
  spec.num_experts_used = 3;
  const auto experts = MakeTinyModel(spec);
  ASSERT_TRUE(dense != nullptr && experts != nullptr);
  // Two FFNs more than one, and the router.
  EXPECT_EQ(WeightBytesPerToken(*experts) - WeightBytesPerToken(*dense),
            4 * (2 * 3 * 96 * 160 + 5 * 96));
  // Four tokens can choose all five, and read a row of embeddings each.
  EXPECT_EQ(WeightBytesPerBatch(*experts, FfnMode::kDense, 4) -
                WeightBytesPerToken(*experts),
            4 * (2 * 3 * 96 * 160 + 3 * 96));
}

TEST(SessionPlan, WeightBytesCountOnePositionAndOneDownMatrix) {
  TinySpec spec;
  spec.architecture = "opt";
  spec.num_layers = 1;
  spec.tied = true;
  const uint64_t norms = 3 * 2 * 96;
  const uint64_t attention = 96 * (96 + 32 + 32 + 96) + 96 + 32 + 32 + 96;
  const uint64_t ffn = 2 * 96 * 160 + 160 + 96;
  for (const bool down_t : {false, true}) {
    spec.down_t = down_t;
    const auto model = MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(WeightBytesPerToken(*model),
              4 * (norms + attention + ffn + 50 * 96 + 96));
  }
}

TEST(SessionPlan, WeightBytesCountPredictorsThatRun) {
  TinySpec spec;
  spec.num_layers = 3;
  spec.low_ranks = {8, 0, 5};
  const auto model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(
      WeightBytesPerToken(*model, FfnMode::kFast) - WeightBytesPerToken(*model),
      4 * (13 * (96 + 1 + 160) + 2 * 160));
}

TEST(SessionPlan, FastNeedsPredictorsAndRoomForWhatTheyChoose) {
  model::Config config = SevenBillion();
  const auto refused = PlanSession(config, {.ffn = FfnMode::kFast});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("--ffn dense"), std::string::npos);
  config.predictor.kind = model::PredictorKind::kPowerInfer;
  const auto automatic = PlanSession(config, {});
  const auto dense = PlanSession(config, {.ffn = FfnMode::kDense});
  ASSERT_TRUE(automatic.has_value() && dense.has_value());
  EXPECT_EQ(automatic->scratch.ffn, FfnMode::kFast);
  EXPECT_EQ(dense->scratch.ffn, FfnMode::kDense);
  EXPECT_GT(automatic->need.scratch_bytes, dense->need.scratch_bytes);
}

}  // namespace
}  // namespace thermocline::engine
