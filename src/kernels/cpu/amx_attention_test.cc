#include "kernels/cpu/amx_attention.h"

#include <limits>

#include "kernels/test_attention.h"
#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

struct TileCase {
  size_t num_tokens, num_heads, k_width, v_width, num_positions;
  DType k_dtype = DType::kF16, v_dtype = DType::kF16;
};

std::string DescribeTile(const TileCase& c) {
  return "tokens " + std::to_string(c.num_tokens) + " heads " +
         std::to_string(c.num_heads) + " widths " + std::to_string(c.k_width) +
         ", " + std::to_string(c.v_width) + " positions " +
         std::to_string(c.num_positions);
}

class AmxAttentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::ranges::count(SupportedIsas(), Isa::kAmx) == 0) {
      GTEST_SKIP() << "needs a CPU with AMX";
    }
    few_ = KernelsFor(Isa::kAvx512Vnni);
    many_ = grouped_ = KernelsFor(Isa::kAmx);
    many_.attention = many_.large_batch_attention;
  }

  KernelTable few_;      // in floats
  KernelTable grouped_;  // with attention(), in tiles for more than five heads
  KernelTable many_;     // with large_batch_attention() in its place
};

// Keys, values and the calls over them.
class TileProblem {
 public:
  // With so many bytes between rows.
  explicit TileProblem(const TileCase& c, size_t k_gap = 10, size_t v_gap = 6)
      : k_(c.k_dtype, c.num_positions, c.k_width, k_gap, 1),
        v_(c.v_dtype, c.num_positions, c.v_width, v_gap, 2),
        args_{.q = RandomFloats(c.num_tokens * c.num_heads * c.k_width, 3),
              .num_tokens = c.num_tokens,
              .num_heads = c.num_heads,
              .k_dtype = c.k_dtype,
              .v_dtype = c.v_dtype,
              .k = k_.data(),
              .k_stride_bytes = k_.row_bytes(),
              .v = v_.data(),
              .v_stride_bytes = v_.row_bytes(),
              .k_width = c.k_width,
              .v_width = c.v_width,
              .num_positions = c.num_positions,
              // So that some weights are far larger than others.
              .scale = 8 / std::sqrt(static_cast<float>(c.k_width))} {}

  AttentionCase& args() { return args_; }

  void SetValue(size_t position, size_t i, float value) {
    SetF16(v_.row(position), i, value);
  }
  void SetKey(size_t position, size_t i, float value) {
    SetF16(k_.row(position), i, value);
  }

  // Of one of its queries alone.
  AttentionCase Alone(size_t query) const {
    AttentionCase alone = args_;
    alone.num_tokens = alone.num_heads = 1;
    alone.q.assign(args_.q.begin() + query * args_.k_width,
                   args_.q.begin() + (query + 1) * args_.k_width);
    alone.num_positions =
        args_.num_positions - (args_.num_tokens - 1 - query / args_.num_heads);
    return alone;
  }

 private:
  static void SetF16(const std::byte* row, size_t i, float value) {
    const uint16_t bits = F32ToF16(value);
    std::memcpy(const_cast<std::byte*>(row) + i * sizeof(bits), &bits,
                sizeof(bits));
  }

  WeightRows k_;
  WeightRows v_;
  AttentionCase args_;
};

std::vector<float> Part(const std::vector<float>& all, size_t i, size_t n) {
  return {all.begin() + i * n, all.begin() + (i + 1) * n};
}

// The powers of the differences and of the truth.
double RelativeError(const std::vector<float>& out,
                     const std::vector<float>& truth) {
  double error = 0, power = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    error += (out[i] - truth[i]) * (out[i] - truth[i]);
    power += truth[i] * truth[i];
  }
  return error / power;
}

constexpr TileCase kCases[] = {
    {1, 1, 32, 32, 1},     {1, 2, 32, 64, 2},     {1, 7, 64, 32, 31},
    {1, 8, 128, 128, 700}, {2, 8, 96, 160, 33},   {17, 1, 64, 64, 64},
    {33, 1, 32, 96, 300},  {9, 7, 64, 64, 300},   {21, 3, 256, 64, 63},
    {64, 1, 128, 128, 64}, {64, 1, 64, 128, 512}, {16, 4, 32, 32, 255},
    {1, 40, 64, 64, 129},  {3, 6, 32, 32, 97},
};

TEST_F(AmxAttentionTest, AgreesWithScalar) {
  for (const TileCase& c : kCases) {
    TileProblem problem(c);
    EXPECT_LT(
        RelativeError(AttendRows(many_, problem.args()),
                      AttendRows(KernelsFor(Isa::kScalar), problem.args())),
        2e-10)
        << DescribeTile(c);
  }
}

TEST_F(AmxAttentionTest, QueriesAreAsAlone) {
  for (const TileCase& c : kCases) {
    TileProblem problem(c);
    const std::vector<float> together = AttendRows(many_, problem.args());
    for (size_t i = 0; i < c.num_tokens * c.num_heads; ++i) {
      EXPECT_TRUE(SameBits(AttendRows(many_, problem.Alone(i)),
                           Part(together, i, c.v_width)))
          << DescribeTile(c) << " query " << i;
    }
  }
}

TEST_F(AmxAttentionTest, PiecesSideBySideAreAsAlone) {
  for (size_t num_heads : {1, 3, 16}) {
    TileProblem problem({1, num_heads, 64, 96, 1300});
    const std::vector<float> truth = AttendRows(many_, problem.args());
    for (size_t num_pieces = 2; num_pieces <= kAttentionPieces; ++num_pieces) {
      EXPECT_TRUE(
          SameBits(AttendRows(many_, problem.args(), num_pieces), truth))
          << num_heads << " heads, " << num_pieces << " pieces";
    }
  }
}

// Numbers of F16 too small for an exponent of their own.
TEST_F(AmxAttentionTest, SubnormalValuesAreExact) {
  TileProblem problem({1, 1, 32, 32, 1});
  for (size_t i = 0; i < 32; ++i) {
    problem.SetValue(0, i, std::ldexp(static_cast<float>(i + 1), -24));
  }
  const std::vector<float> out = AttendRows(many_, problem.args());
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], std::ldexp(static_cast<float>(i + 1), -24));
  }
}

// What a token does not see does not come into its sums: those calls are
// computed again as floats.
TEST_F(AmxAttentionTest, NotFiniteShowsToThoseWhoSeeIt) {
  for (const TileCase& c :
       {TileCase{4, 2, 32, 32, 40}, TileCase{17, 1, 64, 32, 300},
        TileCase{20, 2, 32, 64, 50}}) {
    const size_t bad_position = c.num_positions - 2;  // two tokens see it
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      for (const bool is_key : {false, true}) {
        TileProblem problem(c);
        if (is_key) {
          problem.SetKey(bad_position, 5, bad);
        } else {
          problem.SetValue(bad_position, 5, bad);
        }
        const std::vector<float> out = AttendRows(many_, problem.args());
        const std::vector<float> truth = AttendRows(few_, problem.args());
        const size_t unseen = (c.num_tokens - 2) * c.num_heads * c.v_width;
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_EQ(std::isfinite(out[i]), std::isfinite(truth[i]))
              << DescribeTile(c) << " element " << i;
          if (i < unseen) ASSERT_TRUE(std::isfinite(out[i])) << i;
        }
        // Infinity in a key may leave it without weight.
        if (!is_key || std::isnan(bad)) {
          EXPECT_FALSE(std::isfinite(out[out.size() - c.v_width + 5]));
        }
      }
    }
  }
}

TEST_F(AmxAttentionTest, AQueryThatIsNotFiniteShowsInItsOutputs) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    TileProblem problem({3, 7, 64, 32, 100});
    problem.args().q[10 * 64 + 3] = bad;
    const std::vector<float> out = AttendRows(many_, problem.args());
    EXPECT_TRUE(SameBits(out, AttendRows(few_, problem.args())));
    for (size_t i = 0; i < out.size(); ++i) {
      if (i / 32 != 10) EXPECT_TRUE(std::isfinite(out[i])) << i;
    }
  }
}

// More than five heads share keys and values, in one to eight blocks of queries
// and with what is left of 16 keys, 32 values and a piece.
constexpr TileCase kGroupedCases[] = {
    {1, 6, 64, 64, 1},      {1, 7, 64, 64, 31},    {1, 8, 128, 128, 700},
    {1, 7, 128, 128, 256},  {2, 8, 64, 64, 33},    {1, 9, 128, 128, 300},
    {9, 7, 64, 64, 300},    {2, 11, 128, 128, 97}, {1, 12, 64, 64, 48},
    {1, 17, 128, 128, 290}, {3, 6, 64, 64, 47},    {1, 32, 64, 64, 513},
    {1, 40, 128, 128, 129}, {8, 8, 128, 128, 64},  {6, 8, 64, 64, 80},
    {7, 7, 128, 128, 71},
};

TEST_F(AmxAttentionTest, GroupedAgreesWithScalar) {
  for (const TileCase& c : kGroupedCases) {
    TileProblem problem(c, 0, 0);
    const std::vector<float> out = AttendRows(grouped_, problem.args());
    EXPECT_LT(RelativeError(
                  out, AttendRows(KernelsFor(Isa::kScalar), problem.args())),
              2e-10)
        << DescribeTile(c);
    // Not computed in floats. The one value has the weight 1 either way.
    EXPECT_EQ(SameBits(out, AttendRows(few_, problem.args())),
              c.num_positions == 1)
        << DescribeTile(c);
  }
}

// A token's queries lie in other blocks alone than together.
TEST_F(AmxAttentionTest, GroupedTokensAreAsAlone) {
  for (const TileCase& c :
       {TileCase{9, 7, 64, 64, 300}, TileCase{3, 6, 128, 128, 47},
        TileCase{2, 32, 64, 64, 510}, TileCase{4, 13, 128, 128, 100}}) {
    TileProblem problem(c, 0, 0);
    const std::vector<float> together = AttendRows(grouped_, problem.args());
    const size_t token_floats = c.num_heads * c.v_width;
    for (size_t t = 0; t < c.num_tokens; ++t) {
      AttentionCase alone = problem.args();
      alone.num_tokens = 1;
      alone.q = Part(problem.args().q, t, c.num_heads * c.k_width);
      alone.num_positions -= c.num_tokens - 1 - t;
      EXPECT_TRUE(SameBits(AttendRows(grouped_, alone),
                           Part(together, t, token_floats)))
          << DescribeTile(c) << " token " << t;
    }
  }
}

TEST_F(AmxAttentionTest, GroupedPiecesSideBySideAreAsAlone) {
  for (size_t num_heads : {6, 8, 14, 16, 21, 32}) {
    TileProblem problem({1, num_heads, 64, 64, 1300}, 0, 0);
    const std::vector<float> truth = AttendRows(grouped_, problem.args());
    for (size_t num_pieces = 2;
         num_pieces <=
         std::min(kAttentionPieces, kAttentionQueries / num_heads);
         ++num_pieces) {
      EXPECT_TRUE(
          SameBits(AttendRows(grouped_, problem.args(), num_pieces), truth))
          << num_heads << " heads, " << num_pieces << " pieces";
    }
  }
}

TEST_F(AmxAttentionTest, GroupedSubnormalValuesAreExact) {
  TileProblem problem({1, 6, 64, 64, 1}, 0, 0);
  for (size_t i = 0; i < 64; ++i) {
    problem.SetValue(0, i, std::ldexp(static_cast<float>(i + 1), -24));
  }
  const std::vector<float> out = AttendRows(grouped_, problem.args());
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], std::ldexp(static_cast<float>(i % 64 + 1), -24));
  }
}

TEST_F(AmxAttentionTest, GroupedNotFiniteIsComputedInFloats) {
  for (const TileCase& c :
       {TileCase{3, 6, 64, 64, 40}, TileCase{2, 8, 128, 128, 300}}) {
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      for (const bool is_key : {false, true}) {
        TileProblem problem(c, 0, 0);
        if (is_key) {
          problem.SetKey(c.num_positions - 1, 5, bad);
        } else {
          problem.SetValue(c.num_positions - 1, 5, bad);
        }
        const std::vector<float> out = AttendRows(grouped_, problem.args());
        const std::vector<float> truth = AttendRows(few_, problem.args());
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_EQ(std::isfinite(out[i]), std::isfinite(truth[i]))
              << DescribeTile(c) << " element " << i << " bad " << bad
              << (is_key ? " key" : " value");
        }
        if (!is_key)
          EXPECT_FALSE(std::isfinite(out[out.size() - c.v_width + 5]));
      }
    }
  }
}

TEST_F(AmxAttentionTest, AGroupedQueryThatIsNotFiniteShowsInItsOutputs) {
  TileProblem problem({3, 7, 64, 64, 100}, 0, 0);
  problem.args().q[10 * 64 + 3] = std::numeric_limits<float>::infinity();
  const std::vector<float> out = AttendRows(grouped_, problem.args());
  EXPECT_TRUE(SameBits(out, AttendRows(few_, problem.args())));
  EXPECT_TRUE(std::isnan(out[10 * 64]));
}

TEST_F(AmxAttentionTest, OtherGroupedCallsAreInFloats) {
  for (const TileCase& c :
       {TileCase{1, 8, 64, 64, 50, DType::kF32, DType::kF16},
        TileCase{1, 8, 64, 64, 50, DType::kF16, DType::kQ8_0},
        TileCase{1, 5, 64, 64, 50}, TileCase{1, 8, 96, 96, 50},
        TileCase{1, 8, 64, 128, 50}, TileCase{1, 8, 32, 32, 50}}) {
    TileProblem problem(c, 0, 0);
    EXPECT_TRUE(SameBits(AttendRows(grouped_, problem.args()),
                         AttendRows(few_, problem.args())))
        << DescribeTile(c);
  }
  TileProblem with_gaps({1, 8, 64, 64, 50});
  EXPECT_TRUE(SameBits(AttendRows(grouped_, with_gaps.args()),
                       AttendRows(few_, with_gaps.args())));
}

TEST_F(AmxAttentionTest, OtherCallsAreThoseOfFewTokens) {
  for (const TileCase& c :
       {TileCase{20, 1, 32, 32, 50, DType::kF32, DType::kF16},
        TileCase{20, 1, 32, 32, 50, DType::kF16, DType::kF32},
        TileCase{20, 1, 32, 32, 50, DType::kQ8_0, DType::kF16},
        TileCase{20, 1, 48, 32, 50}, TileCase{20, 1, 32, 48, 50}}) {
    TileProblem problem(c);
    EXPECT_TRUE(SameBits(AttendRows(many_, problem.args()),
                         AttendRows(few_, problem.args())))
        << DescribeTile(c);
  }
}

// Rows and queries that lie further apart than they are wide.
TEST_F(AmxAttentionTest, WhatLiesBetweenIsNotRead) {
  TileProblem wide({5, 3, 64, 64, 70});
  std::vector<float> q(5 * 500, std::numeric_limits<float>::quiet_NaN());
  for (size_t t = 0; t < 5; ++t) {
    std::copy_n(wide.args().q.begin() + t * 96, 96, q.begin() + t * 500);
  }
  const GuardedFloats scratch(AttentionScratchFloats(32, 32));
  const auto k = PagesOf(wide.args().k, 70, wide.args().k_stride_bytes);
  const auto v = PagesOf(wide.args().v, 70, wide.args().v_stride_bytes);
  AttentionArgs args = {.q = q.data(),
                        .q_stride = 500,
                        .num_tokens = 5,
                        .num_heads = 3,
                        .k_dtype = DType::kF16,
                        .v_dtype = DType::kF16,
                        .k = k.data(),
                        .k_stride_bytes = wide.args().k_stride_bytes,
                        .v = v.data(),
                        .v_stride_bytes = wide.args().v_stride_bytes,
                        .k_width = 32,
                        .v_width = 32,
                        .num_positions = 66,
                        .is_diagonal = true,
                        .scale = 0.5f,
                        .scratch = scratch.data(),
                        .next_k = k.front()};
  const size_t num_floats = 15 * PartialAttentionFloats(32);
  const GuardedFloats out(num_floats), truth(num_floats);
  args.out = truth.data();
  few_.attention(args);
  args.out = out.data();
  many_.attention(args);
  for (size_t i = 0; i < num_floats; ++i) {
    EXPECT_NEAR(out.data()[i], truth.data()[i],
                1e-4 * (1 + std::abs(truth.data()[i])));
  }
}

TEST(AmxAttentionTablesTest, OnlyAmxHasIt) {
  for (Isa isa : SupportedIsas()) {
    EXPECT_EQ(KernelsFor(isa).large_batch_attention != nullptr,
              isa == Isa::kAmx);
  }
}

}  // namespace
}  // namespace thermocline::kernels
