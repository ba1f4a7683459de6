#include "kernels/cpu/int8_matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "kernels/activation_row.h"
#include "kernels/kernels.h"
#include "kernels/testing.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"
#include "tensor/float16.h"

namespace thermocline::kernels {
namespace {

constexpr DType kTypes[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                            DType::kQ5_0, DType::kQ5_1, DType::kQ4_K,
                            DType::kQ5_K, DType::kQ6_K};

// Where a block has its half-precision numbers, and a bound of |weight| in
// units of the first and the second.
struct BlockFacts {
  size_t half_offset;
  int num_halves;
  float first_bound;
  float second_bound;
};

BlockFacts FactsOf(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return {0, 1, 128, 0};
    case DType::kQ4_0:
      return {0, 1, 8, 0};
    case DType::kQ4_1:
      return {0, 2, 15, 1};
    case DType::kQ5_0:
      return {0, 1, 16, 0};
    case DType::kQ5_1:
      return {0, 2, 31, 1};
    case DType::kQ4_K:
      return {0, 2, 63 * 15, 63};
    case DType::kQ5_K:
      return {0, 2, 63 * 31, 63};
    default:
      return {offsetof(BlockQ6_K, d), 1, 128 * 32, 0};
  }
}

// What the bytes of a block other than its scales are made of.
enum class Fill { kRandom, kZeros, kOnes, kSignBits };

uint8_t FillByte(Fill fill, Random& random) {
  switch (fill) {
    case Fill::kRandom:
      return static_cast<uint8_t>(random.Next());
    case Fill::kZeros:
      return 0;
    case Fill::kOnes:
      return 0xFF;
    case Fill::kSignBits:
      return 0x80;
  }
  return 0;
}

// Ordinary, negative, zero and subnormal scales; the largest one would hide the
// others, so it comes only with blocks that are all alike.
uint16_t RandomScale(Fill fill, Random& random) {
  if (fill == Fill::kSignBits) return 0x7BFF;
  switch (random.Below(8)) {
    case 0:
      return 0x0000;
    case 1:
      return 0x8000;
    case 2:
      return static_cast<uint16_t>(1 + random.Below(0x3FF));
    case 3:
      return static_cast<uint16_t>(0x8001 + random.Below(0x3FF));
    default:
      return F32ToF16(random.Uniform(-0.1f, 0.1f));
  }
}

// Everything a product needs, in memory that ends where the data ends, with
// `gap` bytes between rows and weights `shift` bytes off any alignment. Without
// a gap a row's last step may read the rows that follow.
class Problem {
 public:
  Problem(DType dtype, size_t n, size_t rows, size_t tokens, size_t shift,
          Fill weight_fill, int8_t extreme_q, uint64_t seed, size_t gap = 3)
      : dtype_(dtype), n_(n), rows_(rows), tokens_(tokens), random_(seed) {
    const size_t bytes = BytesOf(dtype, n);
    row_bytes_ = bytes + gap;
    weights_.resize(64 + shift + (rows - 1) * row_bytes_ + bytes);
    first_weight_ = weights_.size() - ((rows - 1) * row_bytes_ + bytes);
    for (size_t r = 0; r < rows; ++r) FillRow(r, weight_fill);

    x_stride_ = ActivationRowBytes(n) + 64;
    x_.resize(tokens * x_stride_ / sizeof(Line));
    for (size_t t = 0; t < tokens; ++t) FillActivations(t, extreme_q);
  }

  MatMulArgs Args(float* out, size_t out_stride) {
    return {.weights = weights_.data() + first_weight_,
            .row_bytes = row_bytes_,
            .num_rows = rows_,
            .n = n_,
            .x = reinterpret_cast<const std::byte*>(x_.data()),
            .x_stride_bytes = x_stride_,
            .num_tokens = tokens_,
            .out = out,
            .out_stride = out_stride};
  }

  // Of the row's first block.
  void SetScale(size_t row, uint16_t half) {
    std::memcpy(weights_.data() + first_weight_ + row * row_bytes_ +
                    FactsOf(dtype_).half_offset,
                &half, sizeof(half));
  }

  // Bound of the sum of the magnitudes of all terms of an output.
  double TermsBound(size_t row, size_t token) const {
    const BlockFacts facts = FactsOf(dtype_);
    const DTypeInfo& info = InfoOf(dtype_);
    const ActivationRow x = Activations(token);
    const std::byte* block = weights_.data() + first_weight_ + row * row_bytes_;
    double sum = 0;
    for (size_t i = 0; i < n_; block += info.block_bytes) {
      uint16_t halves[2] = {};
      std::memcpy(halves, block + facts.half_offset,
                  static_cast<size_t>(facts.num_halves) * sizeof(uint16_t));
      const double weight =
          std::fabs(F16ToF32(halves[0])) * double{facts.first_bound} +
          std::fabs(F16ToF32(halves[1])) * double{facts.second_bound};
      for (const size_t end = i + info.block_elems; i < end; ++i) {
        sum += weight * x.d[i / 32] * std::abs(x.q[i]);
      }
    }
    return sum;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  ActivationRow Activations(size_t token) const {
    return ActivationRowAt(
        const_cast<std::byte*>(reinterpret_cast<const std::byte*>(x_.data())) +
            token * x_stride_,
        n_);
  }

  void FillRow(size_t row, Fill fill) {
    const DTypeInfo& info = InfoOf(dtype_);
    const BlockFacts facts = FactsOf(dtype_);
    std::byte* block = weights_.data() + first_weight_ + row * row_bytes_;
    for (size_t b = 0; b < n_ / info.block_elems; ++b) {
      for (size_t i = 0; i < info.block_bytes; ++i) {
        block[i] = std::byte{FillByte(fill, random_)};
      }
      for (int h = 0; h < facts.num_halves; ++h) {
        const uint16_t half = RandomScale(fill, random_);
        std::memcpy(block + facts.half_offset + h * sizeof(half), &half,
                    sizeof(half));
      }
      block += info.block_bytes;
    }
  }

  // Quants at random, or all equal to `extreme_q` when that is not zero.
  void FillActivations(size_t token, int8_t extreme_q) {
    const ActivationRow x = Activations(token);
    for (size_t i = 0; i < n_ / 32; ++i) {
      x.d[i] = random_.Below(16) == 0 ? 0.0f : random_.Uniform(0.0f, 0.3f);
    }
    for (size_t i = 0; i < n_; ++i) {
      x.q[i] =
          extreme_q != 0
              ? extreme_q
              : static_cast<int8_t>(static_cast<int>(random_.Below(255)) - 127);
    }
    for (size_t i = 0; i < n_ / 16; ++i) {
      int sum = 0;
      for (size_t j = 0; j < 16; ++j) sum += x.q[16 * i + j];
      x.sum[i] = static_cast<int16_t>(sum);
    }
  }

  DType dtype_;
  size_t n_;
  size_t rows_;
  size_t tokens_;
  Random random_;
  size_t row_bytes_;
  std::vector<std::byte> weights_;
  size_t first_weight_;
  size_t x_stride_;
  std::vector<Line> x_;
};

class Int8MatMulTest : public testing::TestWithParam<std::tuple<Isa, DType>> {
 protected:
  Isa isa() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  MatMulFn Fn() const { return KernelsFor(isa()).matmul(dtype()); }

  // The lengths that the type allows.
  std::vector<size_t> Lengths() const {
    std::vector<size_t> lengths = {32,  64,  96,  160, 224,
                                   256, 288, 512, 768, 2048};
    const size_t block = InfoOf(dtype()).block_elems;
    std::erase_if(lengths, [block](size_t n) { return n % block != 0; });
    return lengths;
  }

  // More than the activations that any kernel prepares at a time.
  size_t LongLength() const {
    return 32768 + size_t{InfoOf(dtype()).block_elems};
  }

  // Each product is within rounding of the reference: half an ulp for each
  // operation on the way of a term, which are its own three and at most one
  // addition per 16 elements. Nothing else in the output changes.
  void ExpectNearReference(Problem& problem, size_t n, size_t rows,
                           size_t tokens) const {
    const size_t stride = rows + 2;
    std::vector<float> out(stride * tokens, kSentinel);
    std::vector<float> expected = out;
    Fn()(problem.Args(out.data(), stride));
    KernelsFor(Isa::kScalar)
        .matmul(dtype())(problem.Args(expected.data(), stride));
    const double relative = std::numeric_limits<float>::epsilon() *
                            (4 + static_cast<double>(n) / 16);
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t r = 0; r < rows; ++r) {
        const size_t i = t * stride + r;
        ASSERT_NEAR(out[i], expected[i], relative * problem.TermsBound(r, t))
            << "row " << r << " of " << rows << ", token " << t << " of "
            << tokens << ", n " << n;
      }
      for (size_t r = rows; r < stride; ++r) {
        ASSERT_EQ(out[t * stride + r], kSentinel);
      }
    }
  }
};

TEST_P(Int8MatMulTest, AgreesWithReferenceInEveryShape) {
  for (size_t n : Lengths()) {
    for (size_t rows = 1; rows <= 9; ++rows) {
      for (size_t tokens = 1; tokens <= 9; ++tokens) {
        if (n > 256 && rows + tokens > 10) continue;
        Problem problem(dtype(), n, rows, tokens, rows % 3, Fill::kRandom, 0,
                        n * 100 + rows * 10 + tokens);
        ExpectNearReference(problem, n, rows, tokens);
      }
    }
  }
}

TEST_P(Int8MatMulTest, OneTokenAgreesWithReferenceInStreams) {
  for (size_t n : Lengths()) {
    for (const size_t rows : {1, 2, 3, 5, 9, 16, 17, 23, 65}) {
      for (const size_t gap : {0, 3}) {
        Problem problem(dtype(), n, rows, 1, rows % 3, Fill::kRandom, 0,
                        n * 100 + rows, gap);
        ExpectNearReference(problem, n, rows, 1);
      }
    }
  }
}

// Of the matrix, then of its rows in a list.
std::vector<float> MultiplyTwice(const KernelTable& kernels, DType dtype,
                                 Problem& problem, size_t rows, size_t tokens) {
  std::vector<float> out(2 * rows * tokens, kSentinel);
  const MatMulArgs args = problem.Args(out.data(), rows);
  kernels.matmul(dtype)(args);
  std::vector<uint32_t> ids(rows);
  for (size_t i = 0; i < rows; ++i) {
    ids[i] = static_cast<uint32_t>(i * 7 % rows);
  }
  kernels.dot_rows(dtype)({.rows = args.weights,
                           .row_bytes = args.row_bytes,
                           .ids = ids.data(),
                           .num_rows = rows,
                           .n = args.n,
                           .x = args.x,
                           .x_stride_bytes = args.x_stride_bytes,
                           .num_tokens = tokens,
                           .out = out.data() + rows * tokens,
                           .out_stride = rows});
  return out;
}

TEST_P(Int8MatMulTest, AmdsVersionGivesTheSameBits) {
  const KernelTable prefetched = MakeTable(isa(), false);
  const KernelTable unprefetched = MakeTable(isa(), true);
  for (size_t n : Lengths()) {
    for (const size_t rows : {1, 9, 16, 23, 65}) {
      for (const size_t tokens : {1, 2, 5, 8}) {
        for (const size_t gap : {0, 3}) {
          Problem problem(dtype(), n, rows, tokens, rows % 3, Fill::kRandom, 0,
                          n, gap);
          ASSERT_EQ(MultiplyTwice(unprefetched, dtype(), problem, rows, tokens),
                    MultiplyTwice(prefetched, dtype(), problem, rows, tokens))
              << "n " << n << ", rows " << rows << ", tokens " << tokens
              << ", gap " << gap;
        }
      }
    }
  }
}

// What is not finite shows in its own row alone, although the last steps of
// those before read it.
TEST_P(Int8MatMulTest, RowsDoNotSeeEachOther) {
  for (const uint16_t scale : {0x7C00, 0xFC00, 0x7E00}) {
    for (size_t n : Lengths()) {
      for (const size_t bad : {0, 1, 9, 22}) {
        Problem problem(dtype(), n, 23, 1, 1, Fill::kRandom, 1, n, 0);
        problem.SetScale(bad, scale);
        std::vector<float> out(23, kSentinel);
        Fn()(problem.Args(out.data(), 23));
        for (size_t r = 0; r < out.size(); ++r) {
          ASSERT_EQ(std::isfinite(out[r]), r != bad)
              << "row " << r << ", not finite " << bad << ", n " << n;
        }
      }
    }
  }
}

TEST_P(Int8MatMulTest, AgreesWithReferenceAcrossRowBlocks) {
  Problem problem(dtype(), 768, 37, 5, 1, Fill::kRandom, 0, 99);
  ExpectNearReference(problem, 768, 37, 5);
}

TEST_P(Int8MatMulTest, AgreesWithReferenceInLongRows) {
  const size_t n = LongLength();
  Problem problem(dtype(), n, 3, 5, 1, Fill::kRandom, 0, 98);
  ExpectNearReference(problem, n, 3, 5);
}

TEST_P(Int8MatMulTest, ExtremeQuantsDoNotOverflow) {
  for (Fill fill : {Fill::kZeros, Fill::kOnes, Fill::kSignBits}) {
    for (int8_t q : {-127, -1, 1, 127}) {
      for (size_t n : {size_t{256}, size_t{2048}}) {
        Problem problem(dtype(), n, 5, 5, 1, fill, q, 7);
        ExpectNearReference(problem, n, 5, 5);
      }
    }
  }
}

// Bits are the same however rows and tokens are cut into calls.
TEST_P(Int8MatMulTest, CutsDoNotChangeBits) {
  constexpr size_t kRows = 23;
  constexpr size_t kTokens = 11;
  Random random(5);
  std::vector<size_t> lengths = Lengths();
  lengths.push_back(LongLength());
  for (size_t n : lengths) {
    const size_t gap = n % 3;
    Problem problem(dtype(), n, kRows, kTokens, 1, Fill::kRandom, 0, n, gap);
    std::vector<float> whole(kRows * kTokens, kSentinel);
    const MatMulArgs args = problem.Args(whole.data(), kRows);
    Fn()(args);
    for (int round = 0; round < 8; ++round) {
      std::vector<float> cut(kRows * kTokens, kSentinel);
      size_t row_end;
      for (size_t row = 0; row < kRows; row = row_end) {
        row_end = std::min(kRows, row + 1 + random.Below(round == 0 ? 1 : 9));
        size_t token_end;
        for (size_t token = 0; token < kTokens; token = token_end) {
          token_end =
              std::min(kTokens, token + 1 + random.Below(round == 0 ? 1 : 6));
          MatMulArgs part = args;
          part.weights += row * args.row_bytes;
          part.num_rows = row_end - row;
          part.x += token * args.x_stride_bytes;
          part.num_tokens = token_end - token;
          part.out = cut.data() + token * kRows + row;
          Fn()(part);
        }
      }
      ASSERT_EQ(
          std::memcmp(whole.data(), cut.data(), whole.size() * sizeof(float)),
          0)
          << "n " << n << ", round " << round;
    }
  }
}

TEST_P(Int8MatMulTest, NoRowsWriteNothing) {
  Problem problem(dtype(), 256, 1, 1, 0, Fill::kRandom, 0, 1);
  float out = kSentinel;
  MatMulArgs args = problem.Args(&out, 1);
  args.num_rows = 0;
  Fn()(args);
  EXPECT_EQ(out, kSentinel);
}

INSTANTIATE_TEST_SUITE_P(Isas, Int8MatMulTest,
                         testing::Combine(testing::ValuesIn(SupportedIsas()),
                                          testing::ValuesIn(kTypes)),
                         IsaAndTypeName);

// Integers are exact in both, and floats meet in the same order.
TEST(AvxVnniMatMulTest, GivesTheBitsOfAvx2) {
  if (std::ranges::count(SupportedIsas(), Isa::kAvxVnni) == 0) {
    GTEST_SKIP() << "needs AVX-VNNI";
  }
  constexpr size_t kRows = 23;
  const KernelTable& vnni = KernelsFor(Isa::kAvxVnni);
  const KernelTable& avx2 = KernelsFor(Isa::kAvx2);
  const auto expect_same = [&](DType dtype, size_t n, size_t tokens, Fill fill,
                               int8_t q, size_t gap) {
    Problem problem(dtype, n, kRows, tokens, 1, fill, q, n + tokens, gap);
    std::vector<float> out(kRows * tokens, kSentinel), other = out;
    vnni.matmul(dtype)(problem.Args(out.data(), kRows));
    avx2.matmul(dtype)(problem.Args(other.data(), kRows));
    EXPECT_EQ(out, other) << NameOf(dtype) << ", n " << n << ", " << tokens
                          << " tokens, all quants " << int{q};
  };
  for (const DType dtype :
       {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1}) {
    EXPECT_NE(vnni.matmul(dtype), avx2.matmul(dtype));
    for (const size_t n : {96, 288, 768}) {
      for (const size_t tokens : {1, 5}) {
        for (const size_t gap : {0, 3}) {
          expect_same(dtype, n, tokens, Fill::kRandom, 0, gap);
          for (const Fill fill : {Fill::kZeros, Fill::kOnes, Fill::kSignBits}) {
            expect_same(dtype, n, tokens, fill, 127, gap);
            expect_same(dtype, n, tokens, fill, -127, gap);
          }
        }
      }
    }
  }
}

// The tables really have the functions of their ISA, and nothing else is set.
TEST(FillInt8MatMulsTest, SetsTheQuantisedTypesOnly) {
  for (Isa isa : SupportedIsas()) {
    KernelTable table = {};
    FillInt8MatMuls(isa, IsAmd(), table);
    for (uint32_t id = 0; id < std::size(table.matmul_by_type); ++id) {
      const auto dtype = static_cast<DType>(id);
      const bool expected =
          isa != Isa::kScalar && std::ranges::count(kTypes, dtype) > 0;
      EXPECT_EQ(table.matmul_by_type[id] != nullptr, expected)
          << NameOf(isa) << " " << id;
      EXPECT_EQ(table.dot_rows_by_type[id] != nullptr, expected)
          << NameOf(isa) << " " << id;
      if (expected) {
        EXPECT_EQ(table.matmul(dtype), KernelsFor(isa).matmul(dtype));
        EXPECT_NE(table.matmul(dtype), KernelsFor(Isa::kScalar).matmul(dtype));
      }
    }
    EXPECT_EQ(table.quantize_activations, nullptr);
  }
}

}  // namespace
}  // namespace thermocline::kernels
