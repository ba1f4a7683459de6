#include "engine/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "engine/testing/test_compute_fixture.h"
#include "kernels/kv_group.h"
#include "os/memory.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using testing::OwnedTensor;

// Width 4, two heads of 2 that share one KV head.
model::Config SmallConfig(RopeKind rope) {
  model::Config config;
  config.num_layers = 1;
  config.width = 4;
  model::LayerSpec layer = {.attention = {.num_heads = 2,
                                          .num_kv_heads = 1,
                                          .key_width = 2,
                                          .value_width = 2},
                            .ffn = {.width = 4}};
  if (rope != RopeKind::kNone) {
    layer.attention.rope = 0;
    config.ropes = {{.kind = rope, .width = 2}};
  }
  config.layers = {layer};
  return config;
}

std::vector<float> Identity4() {
  return {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
}

struct SmallWeights {
  // q is x; k and v are its first and its last two elements.
  OwnedTensor q{DType::kF32, Identity4(), 4};
  OwnedTensor k{DType::kF32, std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0}, 4};
  OwnedTensor v{DType::kF32, std::vector<float>{0, 0, 1, 0, 0, 0, 0, 1}, 4};
  OwnedTensor out{DType::kF32, Identity4(), 4};
  OwnedTensor v_bias{DType::kF32, std::vector<float>{10, 20}, 2};
  OwnedTensor out_bias{DType::kF32, std::vector<float>{0, 0, 0, 1000}, 4};

  model::AttentionWeights Views() const {
    model::AttentionWeights weights;
    weights.q = q.view();
    weights.k = k.view();
    weights.v = v.view();
    weights.out = out.view();
    weights.v_bias = v_bias.view();
    weights.out_bias = out_bias.view();
    return weights;
  }
};

// Of num_rows rows from first_position on.
AttentionCall CallOf(const ComputeFixture& fixture, const SequenceRows& run,
                     Phase phase) {
  const Scratch& scratch = fixture.scratch();
  AttentionCall call = {.phase = phase,
                        .num_rows = run.num_rows,
                        .runs = {&run, 1},
                        .normed = scratch.normed,
                        .out = scratch.delta};
  if (!scratch.ropes.empty()) {
    call.rope_cos = scratch.ropes.front().cos;
    call.rope_sin = scratch.ropes.front().sin;
  }
  return call;
}

std::unique_ptr<KvPool> MakePool(const model::Config& config, DType k_type,
                                 DType v_type, int64_t context,
                                 kernels::KvOrder order) {
  return KvPool::Create(PlanKvLayout(config, k_type, v_type, order).value(),
                        KvPagesFor(context))
      .value();
}

class AttentionTest : public ::testing::Test {
 protected:
  explicit AttentionTest(RopeKind rope = RopeKind::kNone)
      : config_(SmallConfig(rope)),
        fixture_(config_, {.batch = 2, .context = 4, .num_threads = 2}),
        pool_(MakePool(config_, DType::kF32, DType::kF32, 4,
                       kernels::KvOrder::kRows)),
        sequence_(pool_.get(), 4),
        attention_(&config_, &weights_, 0, &fixture_.compute(),
                   &fixture_.scratch().attention[0]) {
    EXPECT_TRUE(sequence_.Reserve(4).has_value());
  }

  void SetInput(size_t t, const std::vector<float>& x) {
    std::copy(x.begin(), x.end(), fixture_.scratch().normed.row(t));
  }
  void Run(int64_t first_position, size_t num_rows,
           Phase phase = Phase::kPrompt) {
    const SequenceRows run = {.sequence = &sequence_,
                              .first_position = first_position,
                              .num_rows = num_rows};
    EXPECT_TRUE(attention_.Run(CallOf(fixture_, run, phase)).has_value());
  }
  std::vector<float> OutputOf(size_t t) {
    const auto row = fixture_.scratch().delta.span(t);
    return {row.begin(), row.end()};
  }

  SmallWeights tensors_;
  model::AttentionWeights weights_ = tensors_.Views();
  model::Config config_;
  ComputeFixture fixture_;
  std::unique_ptr<KvPool> pool_;
  KvSequence sequence_;
  Attention attention_;
};

TEST_F(AttentionTest, FirstTokenSeesItsOwnValueInEveryHead) {
  SetInput(0, {1, 2, 3, 4});
  Run(0, 1);
  EXPECT_EQ(OutputOf(0), (std::vector<float>{13, 24, 13, 1024}));
}

TEST_F(AttentionTest, LaterTokensWeighEarlierOnes) {
  SetInput(0, {1, 0, 3, 4});
  SetInput(1, {0, 2, 5, 6});
  Run(0, 2);
  EXPECT_EQ(OutputOf(0), (std::vector<float>{13, 24, 13, 1024}));
  // Token 1, head 0: q (0, 2) against k (1, 0) and (0, 2): 0 and 4.
  // Head 1: q (5, 6): 5 and 12. Values (13, 24) and (15, 26).
  const double share0 = 1.0 / (1.0 + std::exp(-4.0 / std::sqrt(2.0)));
  const double share1 = 1.0 / (1.0 + std::exp(-7.0 / std::sqrt(2.0)));
  const auto out = OutputOf(1);
  EXPECT_NEAR(out[0], 13 + 2 * share0, 1e-4);
  EXPECT_NEAR(out[1], 24 + 2 * share0, 1e-4);
  EXPECT_NEAR(out[2], 13 + 2 * share1, 1e-4);
  EXPECT_NEAR(out[3], 1024 + 2 * share1, 1e-4);
}

TEST_F(AttentionTest, OneByOneIsTheSameAsTogether) {
  SetInput(0, {1, 0, 3, 4});
  SetInput(1, {0, 2, 5, 6});
  Run(0, 2);
  const auto together = OutputOf(1);
  SetInput(0, {1, 0, 3, 4});
  Run(0, 1);
  SetInput(0, {0, 2, 5, 6});
  Run(1, 1);
  EXPECT_EQ(OutputOf(0), together);
}

class RotatedAttentionTest : public AttentionTest {
 protected:
  RotatedAttentionTest() : AttentionTest(RopeKind::kNorm) {}
};

TEST_F(RotatedAttentionTest, KeysAreStoredRotatedAndValuesAreNot) {
  SetInput(0, {1, 2, 3, 4});
  fixture_.scratch().ropes[0].cos.row(0)[0] = 0.0f;  // a quarter turn
  fixture_.scratch().ropes[0].sin.row(0)[0] = 1.0f;
  Run(2, 1);
  const float* key =
      reinterpret_cast<const float*>(sequence_.keys(0, 0, 0)) + 2 * 2;
  EXPECT_FLOAT_EQ(key[0], -2.0f);
  EXPECT_FLOAT_EQ(key[1], 1.0f);
  const float* value =
      reinterpret_cast<const float*>(sequence_.values(0, 0, 0)) + 2 * 2;
  EXPECT_FLOAT_EQ(value[0], 13.0f);
  EXPECT_FLOAT_EQ(value[1], 24.0f);
}

// A table with products of F32 in batches, of rows as they are.
kernels::KernelTable WithBatches(kernels::Isa isa) {
  kernels::KernelTable table = kernels::KernelsFor(isa);
  const auto f32 = static_cast<uint32_t>(DType::kF32);
  table.float_batch = {};
  table.float_batch.multiply_by_type[f32] = table.matmul_by_type[f32];
  table.float_batch.group_bytes = [](size_t n) {
    return (n * sizeof(float) + 63) / 64 * 64;
  };
  table.float_batch.pack = [](const float* x, size_t, size_t, size_t n,
                              std::byte* out) {
    std::copy_n(x, n, reinterpret_cast<float*>(out));
  };
  return table;
}

TEST_F(AttentionTest, PromptsHaveTheirKernel) {
  static int num_calls;
  num_calls = 0;
  kernels::KernelTable table = WithBatches(kernels::Isa::kScalar);
  table.large_batch_attention = [](const kernels::AttentionArgs& args) {
    ++num_calls;
    kernels::KernelsFor(kernels::Isa::kScalar).attention(args);
  };
  compute::Compute compute = fixture_.compute();
  compute.kernels = &table;
  Attention attention(&config_, &weights_, 0, &compute,
                      &fixture_.scratch().attention[0]);
  const auto calls_of = [&](size_t num_rows, Phase phase) {
    const int before = num_calls;
    const SequenceRows run = {.sequence = &sequence_, .num_rows = num_rows};
    EXPECT_TRUE(attention.Run(CallOf(fixture_, run, phase)).has_value());
    return num_calls - before;
  };
  EXPECT_EQ(calls_of(1, Phase::kPrompt), 1);
  EXPECT_EQ(calls_of(2, Phase::kPrompt), 1);
  EXPECT_EQ(calls_of(1, Phase::kGenerate), 0);
  EXPECT_EQ(calls_of(2, Phase::kGenerate), 0);
  table.float_batch = {};
  EXPECT_EQ(calls_of(2, Phase::kPrompt), 0);
}

struct LongCase {
  size_t num_heads;
  size_t num_kv_heads;
  DType k_type;
  DType v_type;
  size_t k_width;
  size_t v_width;
  bool is_large_batch = false;  // as where weights are multiplied in batches
  size_t num_positions = 1050;
};

// So many pieces of positions that one thread reads a few side by side, groups
// that fill a call and one that does not fit, and keys and values of different
// widths and types.
class LongAttentionTest : public ::testing::TestWithParam<LongCase> {
 protected:
  static constexpr int64_t kContext = 1300;

  static model::Config LongConfig() {
    const LongCase& c = GetParam();
    model::Config config;
    config.num_layers = 1;
    config.width = 8;
    config.layers = {
        model::LayerSpec{.attention = {.num_heads = c.num_heads,
                                       .num_kv_heads = c.num_kv_heads,
                                       .key_width = c.k_width,
                                       .value_width = c.v_width},
                         .ffn = {.width = 8}}};
    return config;
  }
  static std::vector<float> Values(size_t n, uint64_t seed) {
    Random random(seed);
    std::vector<float> values(n);
    for (float& value : values) value = random.Uniform(-1, 1);
    return values;
  }

  // The outputs for the first positions, batch by batch of the given lengths,
  // the last length again and again.
  std::vector<float> Run(const std::vector<size_t>& lengths, int num_threads,
                         kernels::Isa isa = kernels::BestIsa(),
                         Phase phase = Phase::kPrompt) {
    return Run(lengths, num_threads, isa, phase, GetParam().num_positions);
  }
  std::vector<float> Run(const std::vector<size_t>& lengths, int num_threads,
                         kernels::Isa isa, Phase phase, size_t num_positions) {
    const model::Config config = LongConfig();
    const LongCase& c = GetParam();
    const size_t q_width = c.num_heads * c.k_width;
    const size_t k_width = c.num_kv_heads * c.k_width;
    const size_t v_width = c.num_kv_heads * c.v_width;
    const size_t out_width = c.num_heads * c.v_width;
    const OwnedTensor q(DType::kF32, Values(8 * q_width, 1), 8);
    const OwnedTensor k(DType::kF32, Values(8 * k_width, 2), 8);
    const OwnedTensor v(DType::kF32, Values(8 * v_width, 3), 8);
    const OwnedTensor out(DType::kF32, Values(out_width * 8, 4), out_width);
    model::AttentionWeights weights;
    weights.q = q.view();
    weights.k = k.view();
    weights.v = v.view();
    weights.out = out.view();
    const ComputeFixture fixture(
        config,
        {.batch = kContext, .context = kContext, .num_threads = num_threads},
        isa);
    const kernels::KvOrder order = kernels::KvOrderFor(isa, c.k_type, c.v_type);
    const auto pool = MakePool(config, c.k_type, c.v_type, kContext, order);
    KvSequence sequence(pool.get(), kContext);
    EXPECT_TRUE(sequence.Reserve(kContext).has_value());
    const kernels::KernelTable table = WithBatches(isa);
    compute::Compute compute = fixture.compute();
    const auto packed =
        os::AlignedBuffer::Allocate(kContext * (out_width + 16) * sizeof(float))
            .value();
    if (c.is_large_batch) {
      compute.kernels = &table;
      compute.scratch.rounded_rows = packed.data();
    }
    Attention attention(&config, &weights, 0, &compute,
                        &fixture.scratch().attention[0]);
    const std::vector<float> x = Values(8 * kContext, 5);
    std::vector<float> outputs;
    size_t position = 0;
    for (size_t i = 0; position < num_positions; ++i) {
      const size_t num_tokens = std::min<size_t>(
          lengths[std::min(i, lengths.size() - 1)], num_positions - position);
      for (size_t t = 0; t < num_tokens; ++t) {
        std::copy_n(x.data() + (position + t) * 8, 8,
                    fixture.scratch().normed.row(t));
      }
      const SequenceRows run = {
          .sequence = &sequence,
          .first_position = static_cast<int64_t>(position),
          .num_rows = num_tokens};
      EXPECT_TRUE(attention.Run(CallOf(fixture, run, phase)).has_value());
      for (size_t t = 0; t < num_tokens; ++t) {
        const auto row = fixture.scratch().delta.span(t);
        outputs.insert(outputs.end(), row.begin(), row.end());
      }
      position += num_tokens;
    }
    return outputs;
  }
};

TEST_P(LongAttentionTest, SameBitsForEveryCutAndThreadCount) {
  const std::vector<float> whole = Run({kContext}, 1);
  EXPECT_EQ(Run({kContext}, 3), whole);
  EXPECT_EQ(Run({1}, 1), whole);
  EXPECT_EQ(Run({1}, 3), whole);
  EXPECT_EQ(Run({250, 8}, 1), whole);
  EXPECT_EQ(Run({250, 8}, 3), whole);
  EXPECT_EQ(Run({3, 7, 300, 5}, 2), whole);
  EXPECT_EQ(Run({77}, 2), whole);
}

TEST_P(LongAttentionTest, SameBitsForEveryCutOfWhatIsGenerated) {
  const auto run = [&](const std::vector<size_t>& lengths, int num_threads) {
    return Run(lengths, num_threads, kernels::BestIsa(), Phase::kGenerate);
  };
  const std::vector<float> one_by_one = run({1}, 1);
  EXPECT_EQ(run({1}, 3), one_by_one);
  EXPECT_EQ(run({3, 7, 30, 8, 5}, 2), one_by_one);
  if (!GetParam().is_large_batch) EXPECT_EQ(run({77}, 1), Run({kContext}, 2));
}

// Rows of several sequences attended together are those of each alone.
TEST_P(LongAttentionTest, SequencesDoNotSeeEachOther) {
  const model::Config config = LongConfig();
  const LongCase& c = GetParam();
  const OwnedTensor q(DType::kF32, Values(8 * c.num_heads * c.k_width, 1), 8);
  const OwnedTensor k(DType::kF32, Values(8 * c.num_kv_heads * c.k_width, 2),
                      8);
  const OwnedTensor v(DType::kF32, Values(8 * c.num_kv_heads * c.v_width, 3),
                      8);
  const size_t out_width = c.num_heads * c.v_width;
  const OwnedTensor out(DType::kF32, Values(out_width * 8, 4), out_width);
  model::AttentionWeights weights;
  weights.q = q.view();
  weights.k = k.view();
  weights.v = v.view();
  weights.out = out.view();
  const kernels::Isa isa = kernels::BestIsa();
  const ComputeFixture fixture(
      config, {.batch = 700, .context = kContext, .num_threads = 3}, isa);
  const auto pool = MakePool(config, c.k_type, c.v_type, 4 * kContext,
                             kernels::KvOrderFor(isa, c.k_type, c.v_type));
  Attention attention(&config, &weights, 0, &fixture.compute(),
                      &fixture.scratch().attention[0]);
  // Histories of these lengths, then some rows of each.
  const std::vector<int64_t> histories = {0, 600, 3, 257, 65};
  const std::vector<size_t> num_rows = {1, 2, 3, 1, 9};
  const std::vector<float> x = Values(8 * 700, 5);
  const auto fill = [&](size_t row, size_t from) {
    std::copy_n(x.data() + from * 8, 8, fixture.scratch().normed.row(row));
  };
  std::vector<KvSequence> sequences;
  const auto begin = [&] {
    sequences.clear();
    for (const int64_t length : histories) {
      KvSequence& sequence = sequences.emplace_back(pool.get(), kContext);
      EXPECT_TRUE(sequence.Reserve(length + 9).has_value());
      if (length == 0) continue;
      for (size_t t = 0; t < static_cast<size_t>(length); ++t) fill(t, t);
      const SequenceRows run = {.sequence = &sequence,
                                .num_rows = static_cast<size_t>(length)};
      EXPECT_TRUE(
          attention.Run(CallOf(fixture, run, Phase::kPrompt)).has_value());
    }
  };
  for (const Phase phase : kPhases) {
    std::vector<float> alone;
    std::vector<float> together;
    begin();
    for (size_t i = 0; i < sequences.size(); ++i) {
      for (size_t t = 0; t < num_rows[i]; ++t) fill(t, 100 * i + t);
      const SequenceRows run = {.sequence = &sequences[i],
                                .first_position = histories[i],
                                .num_rows = num_rows[i]};
      EXPECT_TRUE(attention.Run(CallOf(fixture, run, phase)).has_value());
      for (size_t t = 0; t < num_rows[i]; ++t) {
        const auto row = fixture.scratch().delta.span(t);
        alone.insert(alone.end(), row.begin(), row.end());
      }
    }
    begin();
    std::vector<SequenceRows> runs;
    size_t row = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      runs.push_back({.sequence = &sequences[i],
                      .first_position = histories[i],
                      .first_row = row,
                      .num_rows = num_rows[i]});
      for (size_t t = 0; t < num_rows[i]; ++t) fill(row++, 100 * i + t);
    }
    AttentionCall call = CallOf(fixture, runs[0], phase);
    call.runs = runs;
    call.num_rows = row;
    EXPECT_TRUE(attention.Run(call).has_value());
    for (size_t t = 0; t < row; ++t) {
      const auto out_row = fixture.scratch().delta.span(t);
      together.insert(together.end(), out_row.begin(), out_row.end());
    }
    EXPECT_EQ(together, alone);
  }
}

// In its own order of the cache; queries and weights may be rounded. Fewer
// positions: scalar kernels are slow.
TEST_P(LongAttentionTest, AgreesWithScalar) {
  constexpr size_t kFew = 530;
  const auto run = [&](kernels::Isa isa) {
    return Run({kFew}, 2, isa, Phase::kPrompt, kFew);
  };
  const std::vector<float> out = run(kernels::BestIsa());
  const std::vector<float> truth = run(kernels::Isa::kScalar);
  double error = 0, power = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    error += (out[i] - truth[i]) * (out[i] - truth[i]);
    power += truth[i] * truth[i];
  }
  const bool is_rounded = GetParam().k_type == DType::kQ8_0;
  EXPECT_LT(error, power * (is_rounded ? 1e-4 : 1e-9));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LongAttentionTest,
    ::testing::Values(
        LongCase{2, 2, DType::kF16, DType::kF32, 8, 5},
        LongCase{6, 2, DType::kF16, DType::kF32, 8, 5},
        LongCase{70, 1, DType::kF16, DType::kF32, 8, 5, false, 600},
        LongCase{6, 2, DType::kF16, DType::kF16, 32, 64, true},
        LongCase{20, 1, DType::kF16, DType::kF16, 32, 32, true, 600},
        LongCase{2, 2, DType::kQ8_0, DType::kQ8_0, 96, 128},
        LongCase{6, 2, DType::kQ8_0, DType::kQ8_0, 64, 64},
        LongCase{6, 2, DType::kQ8_0, DType::kQ8_0, 64, 64, true}));

}  // namespace
}  // namespace thermocline::engine
