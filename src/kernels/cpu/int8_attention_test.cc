#include "kernels/cpu/int8_attention.h"

#include <cstring>
#include <limits>

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

// Rows that tests can change.
class Q8Rows {
 public:
  Q8Rows(size_t num_rows, size_t n, size_t pad, uint64_t seed)
      : rows_(DType::kQ8_0, num_rows, n, pad, seed), n_(n) {
    bytes_.assign(rows_.data(),
                  rows_.row(num_rows - 1) + BytesOf(DType::kQ8_0, n));
  }
  const std::byte* data() const { return bytes_.data(); }
  size_t row_bytes() const { return rows_.row_bytes(); }
  float scale(size_t r, size_t block) const {
    uint16_t half;
    std::memcpy(&half, Place(r, block), sizeof(half));
    return F16ToF32(half);
  }
  void set_scale(size_t r, size_t block, float scale) {
    const uint16_t half = F32ToF16(scale);
    std::memcpy(bytes_.data() + (Place(r, block) - bytes_.data()), &half,
                sizeof(half));
  }
  size_t num_blocks() const { return n_ / kBlock; }

 private:
  const std::byte* Place(size_t r, size_t block) const {
    return bytes_.data() + r * row_bytes() + block * sizeof(BlockQ8_0);
  }
  WeightRows rows_;
  size_t n_;
  std::vector<std::byte> bytes_;
};

struct Q8Inputs {
  explicit Q8Inputs(const Q8Case& c)
      : k(c.num_positions, c.k_width, 10, 1),
        v(c.num_positions, c.v_width, 6, 2),
        q(RandomFloats(c.num_tokens * c.num_heads * c.k_width, 3)) {}
  Q8Rows k;
  Q8Rows v;
  std::vector<float> q;
};

AttentionCase AllOf(const Q8Case& c, const Q8Inputs& in) {
  return {.q = in.q,
          .num_tokens = c.num_tokens,
          .num_heads = c.num_heads,
          .k_dtype = DType::kQ8_0,
          .v_dtype = DType::kQ8_0,
          .k = in.k.data(),
          .k_stride_bytes = in.k.row_bytes(),
          .v = in.v.data(),
          .v_stride_bytes = in.v.row_bytes(),
          .k_width = c.k_width,
          .v_width = c.v_width,
          .num_positions = c.num_positions,
          .scale = 1 / std::sqrt(static_cast<float>(c.k_width))};
}

std::string Describe(const Q8Case& c) {
  return "tokens " + std::to_string(c.num_tokens) + " heads " +
         std::to_string(c.num_heads) + " widths " + std::to_string(c.k_width) +
         ", " + std::to_string(c.v_width) + " positions " +
         std::to_string(c.num_positions);
}

// Whether that ISA computes such a call with rounded queries (kernels.h).
bool RoundsQueries(Isa isa, const AttentionCase& c) {
  return (isa == Isa::kAvx512Vnni || isa == Isa::kAmx) && c.num_heads > 1 &&
         c.k_width % kInt8AttentionStep == 0 &&
         c.v_width % kInt8AttentionStep == 0;
}

// The queries times the scale, as such an ISA rounds them.
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
  AttentionCase all = AllOf(c, in);
  const std::vector<float> out = AttendRows(kernels, all);
  const double tolerance = Tolerance(all, LargestValue(in.v, c.num_positions));
  if (RoundsQueries(kernels.isa, all)) {
    all.q = RoundedQueries(all);
    all.scale = 1;
  }
  const std::vector<float> truth = AttendRows(scalar, all);
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], truth[i], tolerance) << Describe(c) << " element " << i;
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

TEST_P(Int8AttentionTest, PositionsAroundThePiecesBorders) {
  for (size_t num_positions : {255, 256, 257, 259, 511, 512, 513, 768, 770}) {
    ExpectClose(kernels(), scalar(), {3, 128, 256, num_positions});
  }
}

// A query's bits depend neither on its neighbours, nor on what it does not see.
TEST_P(Int8AttentionTest, QueriesAreAsAlone) {
  for (const Q8Case& c : {Q8Case{8, 64, 128, 300, 4}, Q8Case{5, 128, 64, 61, 6},
                          Q8Case{16, 64, 64, 17, 2}, Q8Case{1, 64, 64, 256, 32},
                          Q8Case{7, 192, 64, 40, 4}}) {
    Q8Inputs in(c);
    in.v.set_scale(c.num_positions - 1, 1, 100);
    const AttentionCase all = AllOf(c, in);
    const std::vector<float> together = AttendRows(kernels(), all);
    for (size_t i = 0; i < c.num_tokens * c.num_heads; ++i) {
      // A head that shares its keys keeps doing so, with itself.
      AttentionCase alone = all;
      alone.num_tokens = 1;
      alone.num_heads = std::min<size_t>(c.num_heads, 2);
      alone.q.clear();
      for (size_t head = 0; head < alone.num_heads; ++head) {
        alone.q.insert(alone.q.end(), all.q.begin() + i * c.k_width,
                       all.q.begin() + (i + 1) * c.k_width);
      }
      alone.num_positions =
          c.num_positions - (c.num_tokens - 1 - i / c.num_heads);
      std::vector<float> out = AttendRows(kernels(), alone);
      out.resize(c.v_width);
      EXPECT_TRUE(SameBits(out, {together.begin() + i * c.v_width,
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
  std::vector<float> row(64);
  std::vector<std::byte> k(2 * 68), v(2 * 68);
  for (size_t r = 0; r < 2; ++r) {
    for (size_t i = 32; i < 64; ++i) row[i] = r == 0 ? 0.0f : 1.0f;
    kernels().store_row(DType::kQ8_0, row.data(), 64, k.data() + r * 68);
    row.assign(64, r == 0 ? 0.0f : 1.0f);
    kernels().store_row(DType::kQ8_0, row.data(), 64, v.data() + r * 68);
    row.assign(64, 0.0f);
  }
  AttentionCase all = AllOf(c, in);
  all.k = k.data();
  all.v = v.data();
  all.k_stride_bytes = all.v_stride_bytes = 68;
  all.scale = 1;
  // Scores 0 and 1.
  const float expected = 1 / (1 + std::exp(-1.0f));
  for (const float out : AttendRows(kernels(), all)) {
    EXPECT_NEAR(out, expected, 2e-3f);
  }
}

class Int8AttentionNaNTest : public Int8AttentionTest {
 protected:
  static constexpr size_t kTokens = 3;
  static constexpr Q8Case kCase = {2, 64, 128, 90, kTokens};
  static constexpr size_t kOutputs = 2 * 128;  // of a token

  std::vector<float> Attend(const Q8Inputs& in) const {
    return AttendRows(kernels(), AllOf(kCase, in));
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
      in.v.set_scale(p, b, p % 2 == 0 ? 65504.0f : -65504.0f);
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

TEST(Int8AttentionTablesTest, VnniAndAmxHaveOneKernel) {
  KernelTable vnni = {}, amx = {}, avx2 = {};
  FillInt8Attention(Isa::kAvx512Vnni, vnni);
  FillInt8Attention(Isa::kAmx, amx);
  FillInt8Attention(Isa::kAvx2, avx2);
  EXPECT_EQ(vnni.attention, amx.attention);
  EXPECT_EQ(avx2.attention, nullptr);
}

}  // namespace
}  // namespace thermocline::kernels
