#include "kernels/test_attention.h"
#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

class FloatAttentionTest : public IsaTest {};
TC_FOR_EACH_ISA(FloatAttentionTest);

constexpr DType kKvTypes[] = {DType::kF32, DType::kF16, DType::kQ8_0};

struct Case {
  DType k_dtype, v_dtype;
  size_t num_queries, k_width, v_width, num_positions;
  size_t num_tokens = 1;
};

std::string Describe(const Case& c) {
  return std::string(NameOf(c.k_dtype)) + "/" + std::string(NameOf(c.v_dtype)) +
         " tokens " + std::to_string(c.num_tokens) + " queries " +
         std::to_string(c.num_queries) + " widths " +
         std::to_string(c.k_width) + ", " + std::to_string(c.v_width) +
         " positions " + std::to_string(c.num_positions);
}

// However it is cut, too; unless `is_truth`, which the scalar kernels' own run
// of each test cuts.
std::vector<float> Attend(const KernelTable& kernels, const Case& c,
                          bool is_truth) {
  const WeightRows k(c.k_dtype, c.num_positions, c.k_width, 10, 1);
  const WeightRows v(c.v_dtype, c.num_positions, c.v_width, 6, 2);
  AttentionCase all = {
      .q = RandomFloats(c.num_tokens * c.num_queries * c.k_width, 3),
      .num_tokens = c.num_tokens,
      .num_heads = c.num_queries,
      .k_dtype = c.k_dtype,
      .v_dtype = c.v_dtype,
      .k = k.data(),
      .k_stride_bytes = k.row_bytes(),
      .v = v.data(),
      .v_stride_bytes = v.row_bytes(),
      .k_width = c.k_width,
      .v_width = c.v_width,
      .num_positions = c.num_positions,
      .scale = 1 / std::sqrt(static_cast<float>(c.k_width))};
  const std::vector<float> together = AttendRows(kernels, all);
  if (is_truth) return together;
  const size_t most = std::min(
      kAttentionPieces, kAttentionQueries / (c.num_tokens * c.num_queries));
  for (size_t num_pieces = 2; num_pieces <= most; ++num_pieces) {
    EXPECT_TRUE(SameBits(AttendRows(kernels, all, num_pieces), together))
        << Describe(c) << " pieces " << num_pieces;
  }
  if (c.num_tokens == 1) return together;
  // Every token alone has the same bits.
  const AttentionCase batch = all;
  all.num_tokens = 1;
  const size_t q_width = c.num_queries * c.k_width;
  const size_t out_width = c.num_queries * c.v_width;
  for (size_t t = 0; t < c.num_tokens; ++t) {
    all.num_positions = c.num_positions - (c.num_tokens - 1 - t);
    all.q.assign(batch.q.begin() + t * q_width,
                 batch.q.begin() + (t + 1) * q_width);
    EXPECT_TRUE(SameBits(AttendRows(kernels, all),
                         {together.begin() + t * out_width,
                          together.begin() + (t + 1) * out_width}))
        << Describe(c) << " token " << t;
  }
  return together;
}

// |k| and |v| are at most 1, or 128 / 16 for Q8_0.
double Bound(DType dtype) { return dtype == DType::kQ8_0 ? 8 : 1; }

void ExpectClose(const KernelTable& kernels, const KernelTable& scalar,
                 const Case& c) {
  const std::vector<float> out = Attend(kernels, c, false);
  const std::vector<float> truth = Attend(scalar, c, true);
  const auto width = static_cast<double>(c.k_width);
  const auto positions = static_cast<double>(c.num_positions);
  // An error of a score is a relative error of its weight.
  const double score_error =
      (width / 4 + 8) * Bound(c.k_dtype) * std::sqrt(width) * kRounding;
  const double error = 2 * score_error + (1.25 * positions + 16) * kRounding;
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], truth[i], error * Bound(c.v_dtype))
        << Describe(c) << " element " << i;
  }
}

TEST_P(FloatAttentionTest, EveryPairOfTypesAgreesWithScalar) {
  for (DType k_dtype : kKvTypes) {
    for (DType v_dtype : kKvTypes) {
      for (size_t num_positions : {1, 2, 3, 4, 5, 17, 64, 257}) {
        for (size_t num_queries : {1, 2, 5, 7, 8}) {
          ExpectClose(kernels(), scalar(),
                      {k_dtype, v_dtype, num_queries, 96, 64, num_positions});
        }
      }
    }
  }
}

TEST_P(FloatAttentionTest, OddWidthsAgreeWithScalar) {
  for (DType dtype : {DType::kF32, DType::kF16}) {
    for (size_t width : {1, 3, 5, 7, 8, 15, 16, 17, 31, 33, 48, 80, 129}) {
      ExpectClose(kernels(), scalar(), {dtype, dtype, 3, width, width + 2, 13});
      ExpectClose(kernels(), scalar(), {dtype, dtype, 4, width + 2, width, 6});
    }
  }
}

TEST_P(FloatAttentionTest, LongContextsAgreeWithScalar) {
  ExpectClose(kernels(), scalar(), {DType::kF16, DType::kF16, 4, 64, 64, 4099});
}

TEST_P(FloatAttentionTest, PiecesSideBySideAreAsAlone) {
  for (DType k_dtype : kKvTypes) {
    for (DType v_dtype : kKvTypes) {
      if (k_dtype != v_dtype && v_dtype != DType::kF16) continue;
      for (size_t num_queries : {1, 2, 3, 5, 8, 9}) {
        ExpectClose(kernels(), scalar(),
                    {k_dtype, v_dtype, num_queries, 64, 32, 1100});
      }
    }
  }
  ExpectClose(kernels(), scalar(), {DType::kF16, DType::kF32, 2, 33, 19, 1300});
  ExpectClose(kernels(), scalar(),
              {DType::kF16, DType::kF16, 3, 32, 32, 1100, 3});
}

TEST_P(FloatAttentionTest, TokensOfATileAreAsAlone) {
  for (DType dtype : kKvTypes) {
    for (size_t num_queries : {1, 3, 5, 6, 8, 16}) {
      for (size_t num_positions : {size_t{32}, size_t{61}, size_t{320}}) {
        const size_t num_tokens =
            std::min(num_positions, kAttentionQueries / num_queries);
        ExpectClose(
            kernels(), scalar(),
            {dtype, dtype, num_queries, 32, 64, num_positions, num_tokens});
        ExpectClose(kernels(), scalar(),
                    {dtype, DType::kF16, num_queries, 32, 19, num_positions,
                     (num_tokens + 1) / 2});
      }
    }
  }
}

TEST_P(FloatAttentionTest, PositionsAroundThePiecesBorders) {
  for (size_t num_positions : {255, 256, 257, 259, 511, 512, 513, 768, 770}) {
    for (DType dtype : kKvTypes) {
      // Both Q8_0: int8_attention_test.cc.
      ExpectClose(kernels(), scalar(),
                  {dtype, DType::kF16, 3, 64, 96, num_positions});
      ExpectClose(kernels(), scalar(),
                  {DType::kF16, dtype, 3, 64, 96, num_positions});
    }
    ExpectClose(
        kernels(), scalar(),
        {DType::kF16, DType::kF16, kAttentionQueries, 80, 3, num_positions});
  }
}

}  // namespace
}  // namespace thermocline::kernels
