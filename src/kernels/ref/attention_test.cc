// Known answers that every table must give.
#include <limits>

#include "kernels/test_attention.h"
#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

class AttentionTest : public IsaTest {
 protected:
  // F32 keys and values of width `width`, one after another.
  std::vector<float> Attend(const std::vector<float>& q, size_t num_queries,
                            const std::vector<float>& k,
                            const std::vector<float>& v, size_t width,
                            float scale) const {
    return AttendRows(kernels(), {.q = q,
                                  .num_tokens = 1,
                                  .num_heads = num_queries,
                                  .k_dtype = DType::kF32,
                                  .v_dtype = DType::kF32,
                                  .k = AsBytes(k.data()),
                                  .k_stride_bytes = width * sizeof(float),
                                  .v = AsBytes(v.data()),
                                  .v_stride_bytes = width * sizeof(float),
                                  .k_width = width,
                                  .v_width = width,
                                  .num_positions = k.size() / width,
                                  .scale = scale});
  }
};
TC_FOR_EACH_ISA(AttentionTest);

TEST_P(AttentionTest, OnePositionIsItsValue) {
  EXPECT_THAT(Attend({3, 4, 5}, 1, {1, 2, 3}, {7, -8, 0.1f}, 3, 0.5f),
              ElementsAre(7, -8, 0.1f));
}

TEST_P(AttentionTest, EqualScoresGiveTheMean) {
  EXPECT_THAT(Attend({0, 0}, 1, {1, 2, 3, 4}, {2, 10, 4, -10}, 2, 1),
              ElementsAre(3, 0));
}

TEST_P(AttentionTest, ScaleMultipliesTheScore) {
  // Scores 0 and ln 3: weights 1/4 and 3/4.
  const float log3 = std::log(3.0f);
  EXPECT_THAT(Attend({2 * log3}, 1, {0, 1}, {8, 16}, 1, 0.5f),
              Pointwise(FloatNear(1e-5f), {14.0f}));
}

TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  EXPECT_THAT(Attend({1e18f}, 1, {1e18f, -1e18f, 0}, {5, 6, 7}, 1, 1),
              ElementsAre(5));
  EXPECT_THAT(Attend({1000}, 1, {-3, -1, -2}, {5, 6, 7}, 1, 1), ElementsAre(6));
}

// Scores that overflow to -infinity, all of a piece: they weigh nothing.
TEST_P(AttentionTest, APieceOfNothingChangesNothing) {
  constexpr size_t kCount = 3 * kAttentionPiece;
  for (size_t bad : {0, 1, 2}) {
    std::vector<float> k(kCount, 0.0f);
    std::fill_n(k.begin() + bad * kAttentionPiece, kAttentionPiece, -1e30f);
    std::vector<float> v(kCount, 5.0f);
    std::fill_n(v.begin() + bad * kAttentionPiece, kAttentionPiece, 7.0f);
    EXPECT_THAT(Attend({1e30f}, 1, k, v, 1, 1), ElementsAre(5)) << bad;
    k[bad * kAttentionPiece + 9] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(Attend({1e30f}, 1, k, v, 1, 1)[0])) << bad;
  }
}

TEST_P(AttentionTest, HeadsOfAGroupDoNotMix) {
  const size_t width = 20, num_positions = 9;
  const std::vector<float> k = RandomFloats(num_positions * width, 1);
  const std::vector<float> v = RandomFloats(num_positions * width, 2);
  for (size_t num_queries : {1, 2, 3, 4, 5, 7, 8}) {
    const std::vector<float> q = RandomFloats(num_queries * width, 3);
    const std::vector<float> together =
        Attend(q, num_queries, k, v, width, 0.2f);
    for (size_t g = 0; g < num_queries; ++g) {
      const std::vector<float> alone =
          Attend({q.begin() + g * width, q.begin() + (g + 1) * width}, 1, k, v,
                 width, 0.2f);
      EXPECT_TRUE(SameBits(
          {together.begin() + g * width, together.begin() + (g + 1) * width},
          alone))
          << g << " of " << num_queries;
    }
  }
}

TEST_P(AttentionTest, NaNInOneKeyShows) {
  const size_t n = 2 * kAttentionPiece + 40;
  std::vector<float> k(n, 0.5f);
  for (size_t place : {size_t{0}, size_t{17}, kAttentionPiece, n - 1}) {
    k[place] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> out =
        Attend({1}, 1, k, std::vector<float>(n, 1.0f), 1, 1);
    EXPECT_TRUE(std::isnan(out[0])) << place;
    k[place] = 0.5f;
  }
}

// Also where its product with the query would be -infinity.
TEST_P(AttentionTest, AKeyTooLargeForItsTypeShows) {
  std::vector<float> k(40, 0.5f);
  k[17] = 7e4f;
  const std::vector<float> v(40, 1.0f);
  std::vector<std::byte> k_rows(80), v_rows(80);
  kernels().store_row(DType::kF16, k.data(), k.size(), k_rows.data());
  kernels().store_row(DType::kF16, v.data(), v.size(), v_rows.data());
  for (const float q : {1.0f, -1.0f}) {
    const std::vector<float> out =
        AttendRows(kernels(), {.q = {q},
                               .k_dtype = DType::kF16,
                               .v_dtype = DType::kF16,
                               .k = k_rows.data(),
                               .k_stride_bytes = 2,
                               .v = v_rows.data(),
                               .v_stride_bytes = 2,
                               .k_width = 1,
                               .v_width = 1,
                               .num_positions = 40,
                               .scale = 1});
    EXPECT_TRUE(std::isnan(out[0])) << q;
  }
}

TEST_P(AttentionTest, NaNInOneValueShowsInItsElementOnly) {
  const size_t n = kAttentionPiece + 5;
  std::vector<float> v(2 * n, 1.0f);
  for (size_t place : {size_t{0}, size_t{9}, n - 1}) {
    v[2 * place] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> out =
        Attend({1, 1}, 1, std::vector<float>(2 * n, 0.5f), v, 2, 1);
    EXPECT_TRUE(std::isnan(out[0])) << place;
    EXPECT_FLOAT_EQ(out[1], 1.0f) << place;
    v[2 * place] = 1.0f;
  }
}

// The largest score in the first piece, in the last, and far apart.
TEST_P(AttentionTest, PiecesWeighAsTheirScores) {
  const size_t n = 3 * kAttentionPiece;
  std::vector<float> k(n, -1.0f), v(n, 1.0f);
  for (size_t place : {size_t{3}, kAttentionPiece, n - 1}) {
    k[place] = 1;
    v[place] = 7;
    EXPECT_THAT(Attend({1000}, 1, k, v, 1, 1), ElementsAre(7)) << place;
    EXPECT_THAT(Attend({1e30f}, 1, k, v, 1, 1), ElementsAre(7)) << place;
    // Together, the n - 1 others weigh (n - 1) / e^2 as much.
    const double others = static_cast<double>(n - 1) * std::exp(-2.0);
    EXPECT_THAT(Attend({1}, 1, k, v, 1, 1),
                Pointwise(FloatNear(1e-5f), {(others + 7) / (others + 1)}));
    k[place] = -1;
    v[place] = 1;
  }
}

}  // namespace
}  // namespace thermocline::kernels
