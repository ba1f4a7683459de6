#include "engine/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "engine/testing/compute_fixture.h"
#include "kernels/kv_group.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using testing::OwnedTensor;

// Width 4, two heads of 2 that share one KV head.
model::Config SmallConfig(RopeKind rope) {
  model::Config config;
  config.num_layers = 1;
  config.width = config.ffn_width = 4;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.key_width = config.value_width = 2;
  config.rope.kind = rope;
  config.rope.width = 2;
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

class AttentionTest : public ::testing::Test {
 protected:
  explicit AttentionTest(RopeKind rope = RopeKind::kNone)
      : config_(SmallConfig(rope)),
        fixture_(config_, {.batch = 2, .context = 4, .num_threads = 2}),
        cache_(KvCache::Create(
                   PlanKvCache(config_, DType::kF32, DType::kF32, 4).value())
                   .value()),
        attention_(&config_, &weights_, 0, &fixture_.compute(),
                   &fixture_.scratch(), &cache_) {}

  void SetInput(size_t t, const std::vector<float>& x) {
    std::copy(x.begin(), x.end(), fixture_.scratch().normed.row(t));
  }
  std::vector<float> OutputOf(size_t t) {
    const auto row = fixture_.scratch().delta.span(t);
    return {row.begin(), row.end()};
  }

  SmallWeights tensors_;
  model::AttentionWeights weights_ = tensors_.Views();
  model::Config config_;
  ComputeFixture fixture_;
  KvCache cache_;
  Attention attention_;
};

TEST_F(AttentionTest, FirstTokenSeesItsOwnValueInEveryHead) {
  SetInput(0, {1, 2, 3, 4});
  attention_.Run(0, 1);
  EXPECT_EQ(OutputOf(0), (std::vector<float>{13, 24, 13, 1024}));
}

TEST_F(AttentionTest, LaterTokensWeighEarlierOnes) {
  SetInput(0, {1, 0, 3, 4});
  SetInput(1, {0, 2, 5, 6});
  attention_.Run(0, 2);
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
  attention_.Run(0, 2);
  const auto together = OutputOf(1);
  SetInput(0, {1, 0, 3, 4});
  attention_.Run(0, 1);
  SetInput(0, {0, 2, 5, 6});
  attention_.Run(1, 1);
  EXPECT_EQ(OutputOf(0), together);
}

class RotatedAttentionTest : public AttentionTest {
 protected:
  RotatedAttentionTest() : AttentionTest(RopeKind::kNorm) {}
};

TEST_F(RotatedAttentionTest, KeysAreStoredRotatedAndValuesAreNot) {
  SetInput(0, {1, 2, 3, 4});
  fixture_.scratch().rope_cos.row(0)[0] = 0.0f;  // a quarter turn
  fixture_.scratch().rope_sin.row(0)[0] = 1.0f;
  attention_.Run(2, 1);
  const auto* key = reinterpret_cast<const float*>(cache_.keys(0, 0, 2));
  EXPECT_FLOAT_EQ(key[0], -2.0f);
  EXPECT_FLOAT_EQ(key[1], 1.0f);
  const auto* value = reinterpret_cast<const float*>(cache_.values(0, 0, 2));
  EXPECT_FLOAT_EQ(value[0], 13.0f);
  EXPECT_FLOAT_EQ(value[1], 24.0f);
}

// A table whose large batches begin with two tokens, and products of F32 among
// them.
kernels::KernelTable WithLargeBatches(kernels::Isa isa) {
  kernels::KernelTable table = kernels::KernelsFor(isa);
  table.large_batch.min_tokens = 2;
  table.large_batch.group_bytes = [](size_t) { return size_t{64}; };
  table.large_batch.multiply_by_type[static_cast<uint32_t>(DType::kF32)] =
      [](const kernels::MatMulArgs&) {};  // floats are not multiplied by it
  return table;
}

TEST_F(AttentionTest, LargeBatchesHaveTheirKernel) {
  static int num_calls;
  num_calls = 0;
  kernels::KernelTable table = WithLargeBatches(kernels::Isa::kScalar);
  table.large_batch_attention = [](const kernels::AttentionArgs& args) {
    ++num_calls;
    kernels::KernelsFor(kernels::Isa::kScalar).attention(args);
  };
  Compute compute = fixture_.compute();
  compute.kernels = &table;
  const Attention attention(&config_, &weights_, 0, &compute,
                            &fixture_.scratch(), &cache_);
  const auto calls_of = [&](size_t num_tokens) {
    const int before = num_calls;
    SetInput(0, {1, 0, 3, 4});
    SetInput(1, {0, 2, 5, 6});
    attention.Run(0, num_tokens);
    return num_calls - before;
  };
  EXPECT_EQ(calls_of(1), 0);
  EXPECT_EQ(calls_of(2), 1);
  compute.batch_tokens = 2;  // as one of many
  EXPECT_EQ(calls_of(1), 1);
  compute.batch_tokens = 1;
  EXPECT_EQ(calls_of(2), 0);
  compute.batch_tokens = 2;
  table.large_batch.multiply_by_type[static_cast<uint32_t>(DType::kF32)] =
      nullptr;
  EXPECT_EQ(calls_of(2), 0);
}

struct LongCase {
  int64_t num_heads;
  int64_t num_kv_heads;
  DType k_type;
  DType v_type;
  int64_t k_width;
  int64_t v_width;
  bool is_large_batch = false;  // every batch computes as one
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
    config.width = config.ffn_width = 8;
    config.num_heads = c.num_heads;
    config.num_kv_heads = c.num_kv_heads;
    config.key_width = c.k_width;
    config.value_width = c.v_width;
    config.rope.kind = RopeKind::kNone;
    return config;
  }
  static std::vector<float> Values(size_t n, uint64_t seed) {
    Random random(seed);
    std::vector<float> values(n);
    for (float& value : values) value = random.Uniform(-1, 1);
    return values;
  }

  // The outputs for all positions, batch by batch of the given lengths, the
  // last length again and again.
  std::vector<float> Run(const std::vector<size_t>& lengths, int num_threads,
                         kernels::Isa isa = kernels::BestIsa()) {
    const model::Config config = LongConfig();
    const LongCase& c = GetParam();
    const auto size = [](int64_t n) { return static_cast<size_t>(n); };
    const size_t q_width = size(c.num_heads * c.k_width);
    const size_t k_width = size(c.num_kv_heads * c.k_width);
    const size_t v_width = size(c.num_kv_heads * c.v_width);
    const size_t out_width = size(c.num_heads * c.v_width);
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
    const KvCache cache =
        KvCache::Create(
            PlanKvCache(config, c.k_type, c.v_type, kContext, order).value())
            .value();
    const kernels::KernelTable table = WithLargeBatches(isa);
    Compute compute = fixture.compute();
    if (c.is_large_batch) {
      compute.kernels = &table;
      compute.batch_tokens = kContext;
    }
    const Attention attention(&config, &weights, 0, &compute,
                              &fixture.scratch(), &cache);
    const std::vector<float> x = Values(8 * kContext, 5);
    std::vector<float> outputs;
    size_t position = 0;
    for (size_t i = 0; position < kContext; ++i) {
      const size_t num_tokens = std::min<size_t>(
          lengths[std::min(i, lengths.size() - 1)], kContext - position);
      for (size_t t = 0; t < num_tokens; ++t) {
        std::copy_n(x.data() + (position + t) * 8, 8,
                    fixture.scratch().normed.row(t));
      }
      attention.Run(static_cast<int64_t>(position), num_tokens);
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

// In its own order of the cache; queries and weights may be rounded.
TEST_P(LongAttentionTest, AgreesWithScalar) {
  const std::vector<float> out = Run({kContext}, 2);
  const std::vector<float> truth = Run({kContext}, 2, kernels::Isa::kScalar);
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
    ::testing::Values(LongCase{2, 2, DType::kF16, DType::kF32, 8, 5},
                      LongCase{6, 2, DType::kF16, DType::kF32, 8, 5},
                      LongCase{70, 1, DType::kF16, DType::kF32, 8, 5},
                      LongCase{6, 2, DType::kF16, DType::kF16, 32, 64, true},
                      LongCase{20, 1, DType::kF16, DType::kF16, 32, 32, true},
                      LongCase{2, 2, DType::kQ8_0, DType::kQ8_0, 96, 128},
                      LongCase{6, 2, DType::kQ8_0, DType::kQ8_0, 64, 64},
                      LongCase{6, 2, DType::kQ8_0, DType::kQ8_0, 64, 64,
                               true}));

}  // namespace
}  // namespace thermocline::engine
