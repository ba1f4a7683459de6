#include "engine/runtime.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "base/remedy.h"
#include "base/units.h"
#include "engine/testing/tiny_model.h"
#include "model/test_log.h"
#include "model/test_model.h"
#include "os/topology.h"

namespace thermocline::engine {
namespace {

model::Config SevenBillion() {
  model::Config config;
  config.context_length = 32768;
  config.num_layers = 32;
  config.width = 4096;
  config.vocab_size = 32000;
  config.ropes = {{.width = 128}};
  config.layers.assign(32, model::LayerSpec{.attention = {.num_heads = 32,
                                                          .num_kv_heads = 32,
                                                          .key_width = 128,
                                                          .value_width = 128,
                                                          .rope = 0},
                                            .ffn = {.width = 11008}});
  return config;
}

// Files with YaRN often keep the length that it stretches as the model's.
TEST(Runtime, WarnsOfContextsBeyondTheTrainedOnes) {
  const auto warnings = [](model::RopeScaling scaling, float factor,
                           int64_t context) {
    gguf::TestFile file = model::TestModel();  // 128 positions
    file.SetText("llama.rope.scaling.type", std::string(NameOf(scaling)))
        .SetF32("llama.rope.scaling.factor", factor)
        .SetU32("llama.rope.scaling.original_context_length", 128);
    gguf::ParsedCopy parsed(file.Bytes());
    const auto model = model::Model::FromFile(std::move(*parsed.file), {});
    EXPECT_TRUE(model.has_value()) << model.error().message;
    const model::TestLog log;
    EXPECT_TRUE(
        Runtime::Create(*model, {.context = context, .num_threads = 1}));
    return log.lines();
  };
  EXPECT_EQ(warnings(model::RopeScaling::kNone, 1, 128).size(), 0u);
  EXPECT_EQ(warnings(model::RopeScaling::kNone, 1, 129).size(), 1u);
  EXPECT_EQ(warnings(model::RopeScaling::kYarn, 2, 256).size(), 0u);
  const auto beyond = warnings(model::RopeScaling::kYarn, 2, 257);
  ASSERT_EQ(beyond.size(), 1u);
  EXPECT_NE(beyond[0].find("beyond the 256"), std::string::npos);
}

TEST(RuntimePlan, ContextDefaultsToTheModelsAtMost4096) {
  model::Config config = SevenBillion();
  const auto long_one = PlanRuntime(config, {});
  ASSERT_TRUE(long_one.has_value());
  EXPECT_EQ(long_one->engine.context, 4096);
  config.context_length = 256;
  const auto short_one = PlanRuntime(config, {});
  ASSERT_TRUE(short_one.has_value());
  EXPECT_EQ(short_one->engine.context, 256);
  EXPECT_EQ(short_one->engine.max_rows, 256);
  const auto asked = PlanRuntime(config, {.context = 300});
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->engine.context, 300);
}

TEST(RuntimePlan, TheCacheLiesAsAttentionReadsIt) {
  const auto order = [](const SessionOptions& options) {
    return PlanRuntime(SevenBillion(), options)->kv.order;
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
TEST(RuntimePlan, TrainingFreePredictorsOfTheFileCount) {
  model::Config config = SevenBillion();
  for (model::LayerSpec& layer : config.layers) {
    layer.ffn.activation = Activation::kRelu;
  }
  const SessionOptions free = {.predictor = PredictorChoice::kTrainingFree};
  EXPECT_GT(PlanMemory(config, free)->host.signs, 0u);
  EXPECT_FALSE(PlanMemory(config, {.ffn = FfnMode::kFast}).has_value());
  config.has_training_free = true;
  EXPECT_EQ(PlanMemory(config, free)->host.signs, 0u);
  EXPECT_TRUE(PlanMemory(config, {.ffn = FfnMode::kFast}).has_value());
}

TEST(RuntimePlan, ZeroThreadsAreThePhysicalCores) {
  const auto plan = PlanRuntime(SevenBillion(), {});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->num_threads, os::ReadTopology().num_default_threads());
}

TEST(RuntimePlan, CountsTheKnownCacheOfA7BModel) {
  // 2 * 32 layers * 4096 wide * 2 bytes: half a MiB per position.
  const auto need = PlanMemory(SevenBillion(), {.context = 4096});
  ASSERT_TRUE(need.has_value());
  EXPECT_EQ(need->host.kv, 2 * kGiB);
  EXPECT_EQ(KvBytesPerToken(SevenBillion(), {}, 0), kMiB / 2);
  EXPECT_EQ(KvBytesPerToken(SevenBillion(), {}, 99), 100 * kMiB / 2);
}

TEST(RuntimePlan, RefusesOptionsByName) {
  struct Case {
    SessionOptions options;
    std::string_view message;
    Remedy remedy;
  };
  const Case cases[] = {
      {{.context = -1}, "a context of -1 positions", Remedy::kContext},
      {{.batch = 0}, "a batch of 0 tokens", Remedy::kBatch},
      {{.num_threads = -2}, "-2 threads", Remedy::kThreads},
      {{.num_threads = 100000}, "100000 threads", Remedy::kThreads},
      {{.k_type = DType::kBF16}, "keys in BF16", Remedy::kKeyType},
      {{.v_type = DType::kBF16}, "values in BF16", Remedy::kValueType},
  };
  for (const auto& [options, message, remedy] : cases) {
    const auto need = PlanMemory(SevenBillion(), options);
    ASSERT_FALSE(need.has_value()) << message;
    EXPECT_EQ(need.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(need.error().message.find(message), std::string::npos)
        << need.error().message;
    EXPECT_EQ(need.error().advice.remedy, remedy) << message;
  }
}

// Pinned to the same cores, threads of two runtimes would spin against each
// other.
TEST(Runtime, RuntimesThatRunInTurnsShareThreads) {
  const auto model = testing::MakeTinyModel(testing::TinySpec());
  ASSERT_NE(model, nullptr);
  SessionOptions options = {.context = 16, .num_threads = 2};
  const auto alone = Runtime::Create(model, options);
  options.threads = MakeThreads(options).value();
  options.num_threads = 7;  // those that are given count
  const auto first = Runtime::Create(model, options);
  const auto second = Runtime::Create(model, options);
  ASSERT_TRUE(alone && first && second);
  EXPECT_NE(&(*alone)->pool(), &(*first)->pool());
  EXPECT_EQ(&(*first)->pool(), &(*second)->pool());
  EXPECT_EQ((*second)->plan().num_threads, 2);
  EXPECT_EQ(MakeThreads(options).value(), options.threads);
}

TEST(RuntimePlan, HugeContextsOverflowCleanly) {
  for (const int64_t context : {INT64_MAX, int64_t{1} << 50}) {
    const auto need =
        PlanMemory(SevenBillion(), {.context = context, .batch = context});
    ASSERT_FALSE(need.has_value());
    EXPECT_EQ(need.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(need.error().advice.remedy, Remedy::kLessMemory);
  }
}

TEST(RuntimePlan, SeveralSequencesShareTheEngine) {
  const auto one = PlanRuntime(SevenBillion(), {.context = 100});
  const auto four =
      PlanRuntime(SevenBillion(), {.context = 100, .num_sequences = 4});
  ASSERT_TRUE(one.has_value() && four.has_value());
  EXPECT_EQ(one->num_kv_pages, 2u);
  EXPECT_EQ(four->num_kv_pages, 8u);
  EXPECT_EQ(one->engine.max_rows, 100);
  EXPECT_EQ(four->engine.max_rows, 400);
  EXPECT_FALSE(PlanRuntime(SevenBillion(), {.num_sequences = 0}).has_value());
}

TEST(RuntimePlan, WeightsCountWhereTheyLie) {
  const auto mapped = PlanMemory(SevenBillion(), {.context = 64},
                                 {.num_bytes = kGiB, .bundle_bytes = kMiB});
  ASSERT_TRUE(mapped.has_value());
  EXPECT_EQ(mapped->host.weights, kGiB);
  EXPECT_EQ(mapped->host.bundles, kMiB);
  EXPECT_EQ(mapped->anonymous(), mapped->host.total() - kGiB);
}

TEST(Runtime, KeepsToItsBudgetBeforeAllocating) {
  const auto model = testing::MakeTinyModel({});
  ASSERT_NE(model, nullptr);
  const auto need = PlanMemory(model->config(), {}, WeightMemory::Of(*model));
  ASSERT_TRUE(need.has_value());
  EXPECT_GT(need->host.weights, 0u);
  const uint64_t total = need->host.total();
  EXPECT_TRUE(Runtime::Create(model, {.budget = {.ram = total}}).has_value());
  const auto refused = Runtime::Create(model, {.budget = {.ram = total - 1}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find(FormatBytes(total)),
            std::string::npos);
}

}  // namespace
}  // namespace thermocline::engine
