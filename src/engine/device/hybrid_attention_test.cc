// Models whose attention and head are computed on a device for what is
// generated: what they say is what the host says alone.

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda_on_host/control.h"
#include "device/cuda/find_cuda.h"
#include "engine/testing/test_placement.h"

namespace thermocline::engine {
namespace {

using testing::MakeLateSim;
using testing::MakeTinyModel;
using testing::Nmse;
using testing::PlacedParts;
using testing::PlacedRun;
using testing::RandomTokens;
using testing::TinySpec;
using Floats = std::vector<float>;
using ModelPtr = std::shared_ptr<const model::Model>;
using Turn = PlacedRun::Turn;

// One by one, some together, and more than a device takes at once; a prompt
// that looks back on what was generated.
constexpr Turn kTurns[] = {{Phase::kPrompt, 9},   {Phase::kGenerate, 1},
                           {Phase::kGenerate, 5}, {Phase::kGenerate, 11},
                           {Phase::kPrompt, 4},   {Phase::kGenerate, 2}};

struct AttentionCase {
  const char* architecture;
  DType dtype;
  double nmse;
};

std::string NameOfAttentionCase(
    const ::testing::TestParamInfo<AttentionCase>& info) {
  std::string name = info.param.architecture;
  std::erase(name, '-');
  return name + "_" + std::string(NameOf(info.param.dtype));
}

ModelPtr MakeModelOf(const AttentionCase& param) {
  TinySpec spec;
  testing::UseArchitecture(param.architecture, spec);
  spec.dtype = param.dtype;
  return MakeTinyModel(spec);
}

class HybridAttention : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(HybridAttention, SaysWhatTheHostSays) {
  const ModelPtr model = MakeModelOf(GetParam());
  ASSERT_NE(model, nullptr);
  const SessionOptions options = {.num_threads = 2};
  const Floats expected = PlacedRun(model, options, nullptr).Talk(kTurns);
  for (const PlacedParts& parts :
       {PlacedParts(), PlacedParts{.head = false},
        PlacedParts{.attention = false}, PlacedParts{.first = 1},
        PlacedParts{.head = false, .end = 1}}) {
    PlacedRun hybrid(model, options, MakeLateSim(), parts);
    ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
    EXPECT_LE(Nmse(hybrid.Talk(kTurns), std::span<const float>(expected)),
              GetParam().nmse);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, HybridAttention,
    ::testing::Values(AttentionCase{"llama", DType::kF32, 1e-10},
                      AttentionCase{"llama", DType::kF16, 1e-10},
                      AttentionCase{"llama", DType::kQ8_0, 1e-10},
                      AttentionCase{"mixtral", DType::kF32, 1e-10},
                      AttentionCase{"falcon", DType::kF32, 1e-10},
                      AttentionCase{"relu-falcon", DType::kF16, 1e-10},
                      AttentionCase{"opt", DType::kF32, 1e-10},
                      AttentionCase{"qwen2", DType::kF32, 1e-10},
                      AttentionCase{"qwen3", DType::kF32, 1e-10},
                      AttentionCase{"nemotron", DType::kF32, 1e-10}),
    NameOfAttentionCase);

// The GPU's own kernels and what drives them, emulated (cuda_on_host/): every
// access is checked, and streams run late.
class HybridAttentionOnCuda : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(HybridAttentionOnCuda, SaysWhatTheHostSays) {
  const ModelPtr model = MakeModelOf(GetParam());
  ASSERT_NE(model, nullptr);
  constexpr Turn kFew[] = {
      {Phase::kPrompt, 3}, {Phase::kGenerate, 1}, {Phase::kGenerate, 3}};
  const SessionOptions options = {.num_threads = 2};
  const Floats expected = PlacedRun(model, options, nullptr).Talk(kFew);
  cuda_on_host::ReviveDevice(5, true);
  auto device = device::OpenCuda(0);
  ASSERT_TRUE(device) << device.error().message;
  {
    PlacedRun hybrid(model, options, *std::move(device));
    ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
    EXPECT_LE(Nmse(hybrid.Talk(kFew), std::span<const float>(expected)),
              GetParam().nmse);
  }
  EXPECT_EQ(cuda_on_host::TakeFault(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Models, HybridAttentionOnCuda,
    ::testing::Values(AttentionCase{"llama", DType::kF16, 1e-9},
                      AttentionCase{"falcon", DType::kQ8_0, 1e-3},
                      AttentionCase{"opt", DType::kF16, 1e-9},
                      AttentionCase{"qwen3", DType::kF16, 1e-9}),
    NameOfAttentionCase);

// What a row's q, k and v are computed with: its own product each, or one for
// all where they and their weights follow each other.
struct ProjectionCase {
  const char* architecture;
  size_t num_heads, head_width;
};
constexpr ProjectionCase kProjections[] = {
    {"qwen3", 6, 16},  // norms
    {"opt", 6, 16},    // biases, no rope
    {"qwen2", 6, 16},  // biases
    {"llama", 6, 16},
    {"llama", 3, 8}};  // not one behind the other; F32 alone

// Not a bit: alone and beside others.
void ExpectSameBitsAlone(const ProjectionCase& param, DType dtype,
                         const std::shared_ptr<device::Device>& device) {
  TinySpec spec;
  testing::UseArchitecture(param.architecture, spec);
  spec.num_heads = spec.num_kv_heads = param.num_heads;
  spec.head_width = param.head_width;
  spec.dtype = dtype;
  const ModelPtr model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const auto run = [&](size_t count, size_t num_calls) {
    PlacedRun hybrid(model, {.num_threads = 1}, device, {.head = false});
    EXPECT_TRUE(hybrid.status()) << hybrid.status().error().message;
    EXPECT_TRUE(hybrid.Run({1, 2, 3}, Phase::kPrompt));
    const auto tokens = RandomTokens(count * num_calls, 50, 4);
    Floats all;
    for (size_t i = 0; i < tokens.size(); i += count) {
      const auto first = tokens.begin() + static_cast<ptrdiff_t>(i);
      const auto end = first + static_cast<ptrdiff_t>(count);
      const Floats more = hybrid.Run({first, end}, Phase::kGenerate).value();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  EXPECT_EQ(run(1, 3), run(3, 1));
}

TEST(HybridProjection, GivesTheSameBitsAtOnce) {
  for (const ProjectionCase& param : kProjections) {
    for (const DType dtype : {DType::kF32, DType::kQ8_0, DType::kQ4_0}) {
      if (param.head_width < 16 && dtype != DType::kF32) continue;
      SCOPED_TRACE(std::string(param.architecture) +
                   std::string(NameOf(dtype)));
      ExpectSameBitsAlone(param, dtype, MakeLateSim());
    }
  }
}

TEST(HybridProjectionOnCuda, GivesTheSameBitsAtOnce) {
  for (const ProjectionCase& param : std::span(kProjections).first(2)) {
    SCOPED_TRACE(param.architecture);
    cuda_on_host::ReviveDevice(5, true);
    auto device = device::OpenCuda(0);
    ASSERT_TRUE(device) << device.error().message;
    ExpectSameBitsAlone(param, DType::kQ8_0, *std::move(device));
    EXPECT_EQ(cuda_on_host::TakeFault(), "");
  }
}

// Over several pages, and pieces of 256 positions. The device keeps F16: where
// the host keeps more or less, both differ by what that rounds.
TEST(HybridLongContext, SaysWhatTheHostSays) {
  constexpr Turn kLong[] = {{Phase::kPrompt, 253}, {Phase::kGenerate, 1},
                            {Phase::kGenerate, 9}, {Phase::kPrompt, 60},
                            {Phase::kGenerate, 1}, {Phase::kGenerate, 2}};
  TinySpec spec;
  spec.context_length = 400;
  spec.head_width = 32;
  const ModelPtr model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  for (const auto& [kv_type, nmse] :
       {std::pair(DType::kF16, 1e-10), std::pair(DType::kF32, 1e-8),
        std::pair(DType::kQ8_0, 1e-5)}) {
    SCOPED_TRACE(NameOf(kv_type));
    const SessionOptions options = {
        .num_threads = 2, .k_type = kv_type, .v_type = kv_type};
    const Floats expected = PlacedRun(model, options, nullptr).Talk(kLong);
    PlacedRun hybrid(model, options, MakeLateSim());
    ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
    EXPECT_LE(Nmse(hybrid.Talk(kLong), std::span<const float>(expected)), nmse);
  }
}

// All that a device can have of a layer, one after the other in the same memory
// of its lane; predictors, if any, stay on the host.
TEST(HybridLayers, SayWhatTheHostSays) {
  TinySpec spec;
  testing::UseArchitecture("prosparse-llama", spec);
  const auto model = testing::OpenTinyModel(spec, {.bundle_at_load = true});
  ASSERT_TRUE(model) << model.error().message;
  for (const FfnMode mode : {FfnMode::kDense, FfnMode::kExact}) {
    const SessionOptions options = {.num_threads = 2, .ffn = mode};
    const Floats expected = PlacedRun(*model, options, nullptr).Talk(kTurns);
    PlacedRun hybrid(*model, options, MakeLateSim(), {.neurons = true});
    ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
    EXPECT_LE(Nmse(hybrid.Talk(kTurns), std::span<const float>(expected)),
              1e-10);
    EXPECT_EQ(hybrid.engine().sparse_totals().num_device_candidates > 0,
              mode != FfnMode::kDense);
  }
}

class HybridBatches : public ::testing::Test {
 protected:
  HybridBatches() {
    TinySpec spec;
    spec.context_length = 200;
    model_ = MakeTinyModel(spec);
    hybrid_ = std::make_unique<PlacedRun>(model_, kOptions, MakeLateSim());
    host_ = std::make_unique<PlacedRun>(model_, kOptions, nullptr);
  }

  struct Rows {
    KvSequence* sequence;
    size_t count;
    uint64_t seed;
    Phase phase = Phase::kGenerate;
  };

  // The logits of all rows of a batch.
  static Floats RunRows(PlacedRun& run, const std::vector<Rows>& rows) {
    std::vector<std::vector<text::TokenId>> tokens;
    for (const Rows& some : rows) {
      tokens.push_back(RandomTokens(some.count, kVocab, some.seed));
    }
    std::vector<BatchRun> runs;
    size_t num_rows = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      runs.push_back(
          {rows[i].sequence, tokens[i], rows[i].phase, LogitsOf::kAll});
      num_rows += rows[i].count;
    }
    Floats logits(num_rows * kVocab);
    const Status status = run.engine().Run({runs}, logits);
    EXPECT_TRUE(status) << status.error().message;
    return logits;
  }

  static Floats Part(const Floats& logits, size_t first, size_t count) {
    const auto begin = logits.begin() + static_cast<ptrdiff_t>(first * kVocab);
    return {begin, begin + static_cast<ptrdiff_t>(count * kVocab)};
  }

  static constexpr size_t kVocab = 50;
  const SessionOptions kOptions = {.num_threads = 2, .num_sequences = 4};
  ModelPtr model_;
  std::unique_ptr<PlacedRun> hybrid_, host_;
};

// Not a bit: of one sequence together or one by one, beside others, prompts
// too.
TEST_F(HybridBatches, ARowDoesNotDependOnThoseBesideIt) {
  const auto alone = [&](size_t num_prompt, uint64_t seed) {
    KvSequence sequence(&hybrid_->kv(), 200);
    RunRows(*hybrid_, {{&sequence, num_prompt, seed, Phase::kPrompt}});
    return RunRows(*hybrid_, {{&sequence, 10, seed + 1}});
  };
  const Floats expected_a = alone(70, 1);
  const Floats expected_b = alone(5, 11);
  KvSequence a(&hybrid_->kv(), 200), b(&hybrid_->kv(), 200),
      c(&hybrid_->kv(), 200);
  RunRows(*hybrid_, {{&a, 70, 1, Phase::kPrompt}, {&b, 5, 11, Phase::kPrompt}});
  const Floats together = RunRows(
      *hybrid_, {{&c, 12, 5, Phase::kPrompt}, {&a, 10, 2}, {&b, 10, 12}});
  EXPECT_EQ(Part(together, 12, 10), expected_a);
  EXPECT_EQ(Part(together, 22, 10), expected_b);
  // One after the other.
  a.Truncate(70);
  const auto tokens = RandomTokens(10, kVocab, 2);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const BatchRun run = {&a, {&tokens[i], 1}, Phase::kGenerate};
    Floats logits(kVocab);
    ASSERT_TRUE(hybrid_->engine().Run({{&run, 1}}, logits));
    EXPECT_EQ(logits, Part(expected_a, i, 1)) << i;
  }
}

// What sequences share, and where they part: as on the host.
TEST_F(HybridBatches, ForksAndRewritesAreLikeTheHosts) {
  const auto talk = [&](PlacedRun& run) {
    Floats all;
    const auto add = [&](const std::vector<Rows>& rows) {
      const Floats more = RunRows(run, rows);
      all.insert(all.end(), more.begin(), more.end());
    };
    KvSequence trunk(&run.kv(), 200);
    add({{&trunk, 66, 1, Phase::kPrompt}});
    add({{&trunk, 4, 2}});
    KvSequence fork = trunk.Fork(68);
    KvSequence early = trunk.Fork(40);
    add({{&early, 3, 3}, {&trunk, 1, 4}, {&fork, 9, 5}});
    trunk.Truncate(65);
    add({{&trunk, 3, 6, Phase::kPrompt}, {&fork, 1, 7}});
    add({{&fork, 1, 8}, {&trunk, 2, 9}});
    {
      const KvSequence gone = std::move(fork);
    }
    KvSequence next(&run.kv(), 200);
    add({{&next, 130, 10, Phase::kPrompt}});
    add({{&early, 1, 11}, {&next, 1, 12}});
    return all;
  };
  const Floats expected = talk(*host_);
  EXPECT_LE(Nmse(talk(*hybrid_), std::span<const float>(expected)), 1e-10);
}

}  // namespace
}  // namespace thermocline::engine
