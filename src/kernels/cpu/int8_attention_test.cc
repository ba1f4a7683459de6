#include "kernels/cpu/int8_attention.h"

#include <cstring>
#include <limits>

#include "kernels/kv_group.h"
#include "kernels/test_attention.h"
#include "kernels/testing.h"
#include "tensor/blocks.h"

namespace thermocline::kernels {
namespace {

class Int8AttentionTest : public IsaTest {};
TC_FOR_EACH_ISA(Int8AttentionTest);

struct Q8Case {
  size_t num_heads, k_width, v_width, num_positions;
  size_t num_tokens = 1;
};

// Keys or values that tests can change: rows whose scales are not negative.
class Q8Rows {
 public:
  Q8Rows(size_t num_rows, size_t n, uint64_t seed)
      : num_rows_(num_rows), num_blocks_(n / kBlock) {
    const WeightRows rows(DType::kQ8_0, num_rows, n, 0, seed);
    blocks_.resize(num_rows * num_blocks_);
    for (size_t r = 0; r < num_rows; ++r) {
      std::memcpy(blocks_.data() + r * num_blocks_, rows.row(r), row_bytes());
    }
    for (BlockQ8_0& block : blocks_) block.d &= 0x7FFF;
  }
  size_t num_blocks() const { return num_blocks_; }
  size_t row_bytes() const { return num_blocks_ * sizeof(BlockQ8_0); }
  float scale(size_t r, size_t block) const {
    return F16ToF32(blocks_[r * num_blocks_ + block].d);
  }
  void set_scale(size_t r, size_t block, float scale) {
    blocks_[r * num_blocks_ + block].d = F32ToF16(scale);
  }
  void set_row(size_t r, const std::vector<float>& x) {
    KernelsFor(Isa::kScalar)
        .store_row(DType::kQ8_0, x.data(), x.size(),
                   reinterpret_cast<std::byte*>(&blocks_[r * num_blocks_]));
  }

  // In that order; 0xFF, which is NaN as a scale, behind the last position.
  AlignedBytes Keys(KvOrder order) const { return In(order, true); }
  AlignedBytes Values(KvOrder order) const { return In(order, false); }

 private:
  AlignedBytes In(KvOrder order, bool are_keys) const {
    if (order == KvOrder::kRows) {
      AlignedBytes rows = MakeAligned(num_rows_ * row_bytes());
      std::memcpy(rows.get(), blocks_.data(), num_rows_ * row_bytes());
      return rows;
    }
    const size_t num_groups = (num_rows_ + kKvGroup - 1) / kKvGroup;
    const size_t group_bytes = kKvGroup * row_bytes();
    AlignedBytes groups = MakeAligned(num_groups * group_bytes);
    std::memset(groups.get(), 0xFF, num_groups * group_bytes);
    for (size_t r = 0; r < num_rows_; ++r) {
      std::byte* group = groups.get() + r / kKvGroup * group_bytes;
      for (size_t b = 0; b < num_blocks_; ++b) {
        PutBlock(blocks_[r * num_blocks_ + b], b, r % kKvGroup, are_keys,
                 group);
      }
    }
    return groups;
  }

  void PutBlock(const BlockQ8_0& block, size_t b, size_t position,
                bool are_keys, std::byte* group) const {
    std::memcpy(group + ScaleInGroup(b, position), &block.d, sizeof(block.d));
    for (size_t i = 0; i < kBlock; ++i) {
      const size_t place = are_keys ? KeyInGroup(num_blocks_, b, position, i)
                                    : ValueInGroup(num_blocks_, b, position, i);
      group[place] = static_cast<std::byte>(block.qs[i] + (are_keys ? 128 : 0));
    }
  }

  size_t num_rows_;
  size_t num_blocks_;
  std::vector<BlockQ8_0> blocks_;
};

struct Q8Inputs {
  explicit Q8Inputs(const Q8Case& c)
      : k(c.num_positions, c.k_width, 1),
        v(c.num_positions, c.v_width, 2),
        q(RandomFloats(c.num_tokens * c.num_heads * c.k_width, 3)) {}
  Q8Rows k;
  Q8Rows v;
  std::vector<float> q;
};

// A case with keys and values in memory of its own.
struct OwnedCase {
  AlignedBytes k;
  AlignedBytes v;
  AttentionCase args;
};

OwnedCase AllOf(const Q8Case& c, const Q8Inputs& in, KvOrder order) {
  OwnedCase out = {.k = in.k.Keys(order), .v = in.v.Values(order), .args = {}};
  out.args = {.q = in.q,
              .num_tokens = c.num_tokens,
              .num_heads = c.num_heads,
              .k_dtype = DType::kQ8_0,
              .v_dtype = DType::kQ8_0,
              .kv_order = order,
              .k = out.k.get(),
              .k_stride_bytes = in.k.row_bytes(),
              .v = out.v.get(),
              .v_stride_bytes = in.v.row_bytes(),
              .k_width = c.k_width,
              .v_width = c.v_width,
              .num_positions = c.num_positions,
              .scale = 1 / std::sqrt(static_cast<float>(c.k_width))};
  return out;
}

KvOrder OrderFor(const KernelTable& kernels) {
  return KvOrderFor(kernels.isa, DType::kQ8_0, DType::kQ8_0);
}

std::string Describe(const Q8Case& c) {
  return "tokens " + std::to_string(c.num_tokens) + " heads " +
         std::to_string(c.num_heads) + " widths " + std::to_string(c.k_width) +
         ", " + std::to_string(c.v_width) + " positions " +
         std::to_string(c.num_positions);
}

// The queries times the scale, as they are rounded for groups.
std::vector<float> RoundedQueries(const AttentionCase& c) {
  std::vector<float> out(c.q.size());
  for (size_t begin = 0; begin < c.q.size(); begin += kBlock) {
    float largest = 0;
    for (size_t i = begin; i < begin + kBlock; ++i) {
      out[i] = c.q[i] * c.scale;
      largest = std::max(largest, std::abs(out[i]));
    }
    const float to_quants = 127 / largest;
    for (size_t i = begin; i < begin + kBlock; ++i) {
      out[i] = std::nearbyint(out[i] * to_quants) * (largest / 127);
    }
  }
  return out;
}

double LargestValue(const Q8Rows& v, size_t num_rows) {
  double largest = 0;
  for (size_t r = 0; r < num_rows; ++r) {
    for (size_t b = 0; b < v.num_blocks(); ++b) {
      largest = std::max<double>(largest, 128 * std::abs(v.scale(r, b)));
    }
  }
  return largest;
}

// Beside what float_attention_test.cc allows for sums of floats, 8 times as
// much in scores as keys are up to 8: a weight times the scale of its value is
// rounded by at most 1.5 times 2^-15 of the largest one, which is no more than
// the largest scale times the sum of all weights.
double Tolerance(const AttentionCase& c, double largest_value) {
  const auto width = static_cast<double>(c.k_width);
  const auto positions = static_cast<double>(c.num_positions);
  const double score_error = (width / 4 + 8) * 8 * std::sqrt(width) * kRounding;
  return largest_value *
         (2 * score_error + (1.25 * positions + 64) * kRounding +
          positions * 1.5 * 0x1p-15);
}

void ExpectClose(const KernelTable& kernels, const KernelTable& scalar,
                 const Q8Case& c) {
  const Q8Inputs in(c);
  const OwnedCase all = AllOf(c, in, OrderFor(kernels));
  const std::vector<float> out = AttendRows(kernels, all.args);
  const size_t most = std::min(
      kAttentionPieces, kAttentionQueries / (c.num_tokens * c.num_heads));
  for (size_t num_pieces = 2; num_pieces <= most; ++num_pieces) {
    EXPECT_TRUE(SameBits(AttendRows(kernels, all.args, num_pieces), out))
        << Describe(c) << " pieces " << num_pieces;
  }
  OwnedCase rows = AllOf(c, in, KvOrder::kRows);
  if (all.args.kv_order == KvOrder::kGroups) {
    rows.args.q = RoundedQueries(all.args);
    rows.args.scale = 1;
  }
  const std::vector<float> truth = AttendRows(scalar, rows.args);
  const double tolerance =
      Tolerance(all.args, LargestValue(in.v, c.num_positions));
  double error = 0, power = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], truth[i], tolerance) << Describe(c) << " element " << i;
    error += (out[i] - truth[i]) * (out[i] - truth[i]);
    power += truth[i] * truth[i];
  }
  // Over many positions the bound above is wide.
  EXPECT_LE(error, 1e-7 * power) << Describe(c);
}

// The reference reads both orders.
TEST(Int8AttentionReferenceTest, GroupsAreAsRows) {
  for (const Q8Case& c :
       {Q8Case{2, 64, 32, 300}, Q8Case{1, 96, 160, 65}, Q8Case{3, 32, 64, 1}}) {
    const Q8Inputs in(c);
    const KernelTable& scalar = KernelsFor(Isa::kScalar);
    EXPECT_TRUE(
        SameBits(AttendRows(scalar, AllOf(c, in, KvOrder::kRows).args),
                 AttendRows(scalar, AllOf(c, in, KvOrder::kGroups).args)));
  }
}

TEST_P(Int8AttentionTest, OddNumbersOfPositionsAgreeWithScalar) {
  for (size_t num_positions :
       {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257}) {
    for (size_t num_heads : {1, 2, 3, 4, 7, 8}) {
      ExpectClose(kernels(), scalar(), {num_heads, 128, 64, num_positions});
    }
  }
}

TEST_P(Int8AttentionTest, EveryNumberOfQueriesAgreesWithScalar) {
  for (size_t num_heads = 1; num_heads <= kAttentionQueries; ++num_heads) {
    ExpectClose(kernels(), scalar(), {num_heads, 64, 128, 83});
  }
}

TEST_P(Int8AttentionTest, WidthsAgreeWithScalar) {
  for (size_t k_width : {32, 64, 96, 128, 192, 256}) {
    for (size_t v_width : {32, 64, 96, 128, 256}) {
      ExpectClose(kernels(), scalar(), {4, k_width, v_width, 50});
    }
  }
}

TEST_P(Int8AttentionTest, PiecesSideBySideAgreeWithScalar) {
  for (size_t num_heads : {1, 2, 3, 4, 5, 8, 9}) {
    for (size_t num_positions : {1024, 1500, 1792 + 33}) {
      ExpectClose(kernels(), scalar(), {num_heads, 64, 128, num_positions});
    }
  }
  ExpectClose(kernels(), scalar(), {2, 96, 32, 1100, 3});
}

TEST_P(Int8AttentionTest, PositionsAroundThePiecesBorders) {
  for (size_t num_positions : {255, 256, 257, 259, 511, 512, 513, 768, 770}) {
    ExpectClose(kernels(), scalar(), {3, 128, 256, num_positions});
  }
}

// A query's bits depend neither on its neighbours, nor on what it does not see.
TEST_P(Int8AttentionTest, QueriesAreAsAlone) {
  for (const Q8Case& c :
       {Q8Case{8, 64, 128, 300, 4}, Q8Case{5, 128, 64, 61, 6},
        Q8Case{16, 64, 64, 17, 2}, Q8Case{1, 64, 64, 256, 32},
        Q8Case{7, 192, 64, 40, 4}, Q8Case{1, 64, 64, 80, 64}}) {
    Q8Inputs in(c);
    in.v.set_scale(c.num_positions - 1, 1, 100);
    const OwnedCase all = AllOf(c, in, OrderFor(kernels()));
    const std::vector<float> together = AttendRows(kernels(), all.args);
    for (size_t i = 0; i < c.num_tokens * c.num_heads; ++i) {
      AttentionCase alone = all.args;
      alone.num_tokens = alone.num_heads = 1;
      alone.q.assign(in.q.begin() + i * c.k_width,
                     in.q.begin() + (i + 1) * c.k_width);
      alone.num_positions =
          c.num_positions - (c.num_tokens - 1 - i / c.num_heads);
      EXPECT_TRUE(SameBits(AttendRows(kernels(), alone),
                           {together.begin() + i * c.v_width,
                            together.begin() + (i + 1) * c.v_width}))
          << Describe(c) << " query " << i;
    }
  }
}

// Two keys differ in the second block alone, where the query is a thousandth of
// what it is in the first.
TEST_P(Int8AttentionTest, AnOutlierDoesNotSpoilOtherBlocks) {
  const Q8Case c = {2, 64, 64, 2};
  Q8Inputs in(c);
  for (size_t i = 0; i < 128; ++i) in.q[i] = i % 64 < 32 ? 0.0f : 1.0f / 32;
  in.q[0] = in.q[64] = 1000;
  for (size_t r = 0; r < 2; ++r) {
    std::vector<float> row(64);
    for (size_t i = 32; i < 64; ++i) row[i] = r == 0 ? 0.0f : 1.0f;
    in.k.set_row(r, row);
    in.v.set_row(r, std::vector<float>(64, r == 0 ? 0.0f : 1.0f));
  }
  OwnedCase all = AllOf(c, in, OrderFor(kernels()));
  all.args.scale = 1;
  // Scores 0 and 1.
  const float expected = 1 / (1 + std::exp(-1.0f));
  for (const float out : AttendRows(kernels(), all.args)) {
    EXPECT_NEAR(out, expected, 2e-3f);
  }
}

class Int8AttentionNaNTest : public Int8AttentionTest {
 protected:
  static constexpr size_t kTokens = 3;
  static constexpr Q8Case kCase = {2, 64, 128, 90, kTokens};
  static constexpr size_t kOutputs = 2 * 128;  // of a token

  std::vector<float> Attend(const Q8Inputs& in) const {
    return AttendRows(kernels(), AllOf(kCase, in, OrderFor(kernels())).args);
  }
  // In which tokens' outputs, of those columns, there is NaN; elsewhere nothing
  // changed but what is rounded against the largest scale of a position.
  static void ExpectNaN(const std::vector<float>& out,
                        const std::vector<float>& clean, size_t first_token,
                        size_t begin, size_t end) {
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t column = i % 128;
      if (i / kOutputs >= first_token && column >= begin && column < end) {
        EXPECT_TRUE(std::isnan(out[i])) << i;
      } else {
        EXPECT_NEAR(out[i], clean[i], 0.01) << i;
      }
    }
  }
};
TC_FOR_EACH_ISA(Int8AttentionNaNTest);

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_P(Int8AttentionNaNTest, AKeysScaleShowsToThoseWhoSeeIt) {
  Q8Inputs in(kCase);
  const std::vector<float> clean = Attend(in);
  for (size_t p : {size_t{0}, size_t{15}, size_t{40}, size_t{87}}) {
    const float old = in.k.scale(p, 1);
    in.k.set_scale(p, 1, kNaN);
    ExpectNaN(Attend(in), clean, 0, 0, 128);
    in.k.set_scale(p, 1, old);
  }
  in.k.set_scale(kCase.num_positions - 1, 0, kNaN);
  ExpectNaN(Attend(in), clean, 2, 0, 128);
}

TEST_P(Int8AttentionNaNTest, AValuesScaleShowsInItsBlock) {
  Q8Inputs in(kCase);
  const std::vector<float> clean = Attend(in);
  for (size_t p : {size_t{0}, size_t{15}, size_t{40}, size_t{87}}) {
    const float old = in.v.scale(p, 2);
    in.v.set_scale(p, 2, kNaN);
    ExpectNaN(Attend(in), clean, 0, 64, 96);
    in.v.set_scale(p, 2, old);
  }
  in.v.set_scale(kCase.num_positions - 2, 3, kNaN);
  ExpectNaN(Attend(in), clean, 1, 96, 128);
}

TEST_P(Int8AttentionNaNTest, AQueryShowsInItsOutputs) {
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    Q8Inputs in(kCase);
    const std::vector<float> clean = Attend(in);
    in.q[2 * 2 * 64 + 37] = bad;  // of the last token's first head
    const std::vector<float> out = Attend(in);
    for (size_t i = 0; i < out.size(); ++i) {
      if (i / 128 == 4) {
        EXPECT_TRUE(std::isnan(out[i])) << i;
      } else {
        EXPECT_EQ(out[i], clean[i]) << i;
      }
    }
  }
}

TEST_P(Int8AttentionNaNTest, TheLargestScalesOverflowNothing) {
  Q8Inputs in(kCase);
  for (size_t p = 0; p < kCase.num_positions; ++p) {
    for (size_t b = 0; b < in.v.num_blocks(); ++b) {
      in.v.set_scale(p, b, 65504.0f);
    }
  }
  for (const float out : Attend(in)) {
    EXPECT_TRUE(std::isfinite(out));
    EXPECT_LE(std::abs(out), 65504.0f * 128.5f);
  }
}

TEST_P(Int8AttentionNaNTest, ZerosAreZero) {
  Q8Inputs in(kCase);
  in.q.assign(in.q.size(), 0.0f);
  for (size_t p = 0; p < kCase.num_positions; ++p) {
    for (size_t b = 0; b < in.v.num_blocks(); ++b) in.v.set_scale(p, b, 0);
  }
  for (const float out : Attend(in)) EXPECT_EQ(out, 0);
}

#if defined(__x86_64__)
TEST(Int8AttentionTablesTest, VnniAndAmxHaveKernels) {
  KernelTable vnni = {}, amx = {}, avx2 = {};
  FillInt8Attention(Isa::kAvx512Vnni, vnni);
  FillInt8Attention(Isa::kAmx, amx);
  FillInt8Attention(Isa::kAvx2, avx2);
  EXPECT_NE(vnni.attention, nullptr);
  EXPECT_NE(amx.attention, nullptr);
  EXPECT_EQ(avx2.attention, nullptr);
}
#endif

}  // namespace
}  // namespace thermocline::kernels
