#include "kernels/cpu/amx_matmul.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "kernels/testing.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"

namespace thermocline::kernels {
namespace {

float RoundToBf16(float value) { return BF16ToF32(F32ToBF16(value)); }

// To the sum of two of bf16.
float RoundToHalves(float value) {
  const float upper = RoundToBf16(value);
  return upper + RoundToBf16(value - upper);
}

const BatchMatMul& BatchOf(DType dtype) {
  const KernelTable& table = KernelsFor(Isa::kAmx);
  return IsFloat(dtype) ? table.float_batch : table.batch;
}

// Weights and tokens, and the calls that multiply parts of them.
class AmxProblem {
 public:
  AmxProblem(DType dtype, size_t n, size_t num_rows, size_t num_tokens)
      : dtype_(dtype),
        n_(n),
        num_rows_(num_rows),
        num_tokens_(num_tokens),
        weights_(dtype, num_rows, n, 6, n + num_rows),
        x_(RandomFloats(num_tokens * n, num_tokens)),
        scratch_(MakeAligned(batch().scratch_bytes(n))) {}

  std::vector<float>& x() { return x_; }

  // Of the row's last block; the last number of F16.
  void SetScale(size_t row, uint16_t half) {
    const DTypeInfo& info = InfoOf(dtype_);
    const size_t in_block = dtype_ == DType::kQ6_K ? offsetof(BlockQ6_K, d) : 0;
    std::memcpy(
        weights_.row(row) + BytesOf(dtype_, n_) - info.block_bytes + in_block,
        &half, sizeof(half));
  }

  // out [num_tokens, stride] = rows and tokens from the given ones on; what is
  // not computed stays the sentinel.
  std::vector<float> Multiply(size_t row, size_t num_rows, size_t token,
                              size_t num_tokens, size_t stride) const {
    const size_t group = batch().group_tokens;
    const size_t group_bytes = batch().group_bytes(n_);
    const size_t num_groups = (num_tokens + group - 1) / group;
    const AlignedBytes packed = MakeAligned(num_groups * group_bytes);
    for (size_t g = 0; g < num_groups; ++g) {
      batch().pack(x_.data() + (token + g * group) * n_, n_,
                   std::min(group, num_tokens - g * group), n_,
                   packed.get() + g * group_bytes);
    }
    std::vector<float> out((num_tokens - 1) * stride + num_rows + 1, kSentinel);
    batch().multiply(dtype_)({.weights = weights_.row(row),
                              .row_bytes = weights_.row_bytes(),
                              .num_rows = num_rows,
                              .n = n_,
                              .x = packed.get(),
                              .x_stride_bytes = group_bytes,
                              .num_tokens = num_tokens,
                              .out = out.data(),
                              .out_stride = stride,
                              .scratch = scratch_.get()});
    return out;
  }

  // Each product is that of the rounded operands within the rounding of its
  // sum, and that of the exact ones within the rounding of both operands.
  // Nothing else is written.
  void ExpectNearReference() const {
    const size_t stride = num_rows_ + 2;
    const std::vector<float> out =
        Multiply(0, num_rows_, 0, num_tokens_, stride);
    for (size_t r = 0; r < num_rows_; ++r) {
      const Row row = MakeRow(r);
      for (size_t t = 0; t < num_tokens_; ++t) {
        ASSERT_NO_FATAL_FAILURE(ExpectNear(out[t * stride + r], row, t))
            << "row " << r << " of " << num_rows_ << ", token " << t << " of "
            << num_tokens_ << ", n " << n_;
      }
    }
    for (size_t t = 0; t < num_tokens_; ++t) {
      ASSERT_EQ(out[t * stride + num_rows_], kSentinel);
    }
  }

 private:
  const BatchMatMul& batch() const { return BatchOf(dtype_); }

  struct Row {
    std::vector<float> exact, rounded;
    // How far `rounded` may be off: the last bits of a weight depend on the
    // order of its computation, and can decide how it is rounded.
    std::vector<float> doubt;
  };

  Row MakeRow(size_t r) const {
    Row row;
    row.exact.resize(n_);
    DequantizeRow(dtype_, weights_.row(r), row.exact);
    float largest = 0;
    for (float w : row.exact) largest = std::max(largest, std::abs(w));
    const float margin = largest * 4 * std::numeric_limits<float>::epsilon();
    for (float w : row.exact) {
      if (IsFloat(dtype_)) {  // neither computed nor rounded
        row.rounded.push_back(w);
        row.doubt.push_back(0);
        continue;
      }
      row.rounded.push_back(RoundToBf16(w));
      row.doubt.push_back(RoundToBf16(w + margin) - RoundToBf16(w - margin));
    }
    return row;
  }

  void ExpectNear(float out, const Row& row, size_t t) const {
    const auto round = IsFloat(dtype_) ? RoundToHalves : RoundToBf16;
    // Of two of bf16 the product of what is below 2^-9 of each is left out.
    const double left_out = dtype_ == DType::kF16 ? 0x1p-18 : 0;
    double exact = 0, rounded = 0, magnitude = 0, doubt = 0;
    for (size_t i = 0; i < n_; ++i) {
      const float x = x_[t * n_ + i];
      exact += double{row.exact[i]} * x;
      rounded += double{row.rounded[i]} * round(x);
      magnitude += std::abs(double{row.exact[i]} * x);
      doubt += std::abs(double{row.doubt[i]} * x);
    }
    const double sum_error =
        2 * kRounding * static_cast<double>(n_ + 1) * magnitude;
    ASSERT_NEAR(out, rounded, sum_error + 1.01 * doubt + left_out * magnitude);
    const double rounding = IsFloat(dtype_) ? 0x1p-18 + left_out : 0x1.02p-8;
    ASSERT_NEAR(out, exact, rounding * magnitude + sum_error);
  }

  DType dtype_;
  size_t n_;
  size_t num_rows_;
  size_t num_tokens_;
  WeightRows weights_;
  std::vector<float> x_;
  AlignedBytes scratch_;
};

class AmxMatMulTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (std::ranges::count(SupportedIsas(), Isa::kAmx) == 0) {
      GTEST_SKIP() << "needs a CPU with AMX";
    }
  }
  size_t block() const {
    return std::max<size_t>(InfoOf(GetParam()).block_elems, 32);
  }
};

std::vector<DType> BatchTypes() {
  std::vector<DType> types(std::begin(kQuantTypes), std::end(kQuantTypes));
  types.insert(types.end(), {DType::kF16, DType::kBF16});
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types, AmxMatMulTest,
                         ::testing::ValuesIn(BatchTypes()),
                         [](const auto& test) {
                           return std::string(NameOf(test.param));
                         });

TEST_P(AmxMatMulTest, AgreesWithReferenceAtEveryLength) {
  for (size_t n : {32, 64, 96, 224, 256, 288, 512, 544, 768, 2048, 5632}) {
    if (n % block() != 0) continue;
    AmxProblem(GetParam(), n, 5, 3).ExpectNearReference();
    AmxProblem(GetParam(), n, 33, 2).ExpectNearReference();
  }
  // An input of few tokens that is too large for the cache all the same.
  AmxProblem(GetParam(), 16640, 70, 3).ExpectNearReference();
}

TEST_P(AmxMatMulTest, AgreesWithReferenceForEveryNumberOfTokens) {
  for (size_t t = 1; t <= 70; ++t) {
    AmxProblem(GetParam(), block(), 3, t).ExpectNearReference();
  }
  AmxProblem(GetParam(), 512, 18, 70).ExpectNearReference();
  AmxProblem(GetParam(), 512, 2, 513).ExpectNearReference();
}

TEST_P(AmxMatMulTest, AgreesWithReferenceForEveryNumberOfRows) {
  for (size_t r = 1; r <= 70; ++r) {
    AmxProblem(GetParam(), block(), r, 3).ExpectNearReference();
  }
  AmxProblem(GetParam(), 512, 33, 35).ExpectNearReference();
}

TEST_P(AmxMatMulTest, CutsOfRowsDoNotChangeBits) {
  constexpr size_t kRows = 75, kTokens = 37, kN = 768;
  const AmxProblem problem(GetParam(), kN, kRows, kTokens);
  const std::vector<float> whole =
      problem.Multiply(0, kRows, 0, kTokens, kRows);
  for (size_t size : {1, 7, 16, 33}) {
    for (size_t row = 0; row < kRows; row += size) {
      const size_t num_rows = std::min(size, kRows - row);
      const std::vector<float> part =
          problem.Multiply(row, num_rows, 0, kTokens, num_rows);
      for (size_t i = 0; i < kTokens * num_rows; ++i) {
        ASSERT_EQ(part[i], whole[i / num_rows * kRows + row + i % num_rows])
            << "rows of " << size;
      }
    }
  }
}

TEST_P(AmxMatMulTest, NeighboursDoNotChangeATokensBits) {
  constexpr size_t kRows = 35, kTokens = 70, kN = 512;
  const AmxProblem problem(GetParam(), kN, kRows, kTokens);
  const std::vector<float> whole =
      problem.Multiply(0, kRows, 0, kTokens, kRows);
  for (size_t size : {1, 15, 33}) {
    for (size_t token = 0; token < kTokens; token += size) {
      const size_t num_tokens = std::min(size, kTokens - token);
      const std::vector<float> part =
          problem.Multiply(0, kRows, token, num_tokens, kRows);
      for (size_t i = 0; i < num_tokens * kRows; ++i) {
        ASSERT_EQ(part[i], whole[token * kRows + i]) << "tokens of " << size;
      }
    }
  }
}

// An input too large for the cache is computed in another order of pieces.
TEST_P(AmxMatMulTest, LargeInputsGiveTheBitsOfSmallOnes) {
  constexpr size_t kRows = 290, kTokens = 530, kN = 1280;
  const AmxProblem problem(GetParam(), kN, kRows, kTokens);
  const std::vector<float> whole =
      problem.Multiply(0, kRows, 0, kTokens, kRows);
  for (size_t token = 0; token < kTokens; token += 96) {
    const size_t num_tokens = std::min<size_t>(96, kTokens - token);
    const std::vector<float> part =
        problem.Multiply(0, kRows, token, num_tokens, kRows);
    ASSERT_EQ(std::memcmp(part.data(), whole.data() + token * kRows,
                          num_tokens * kRows * sizeof(float)),
              0);
  }
}

TEST_P(AmxMatMulTest, ANumberThatIsNotFiniteShowsInItsTokenOnly) {
  constexpr size_t kRows = 17, kTokens = 20, kN = 512;
  for (float bad : {std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    AmxProblem problem(GetParam(), kN, kRows, kTokens);
    // Weights may be zero, but not all of a block.
    std::fill_n(problem.x().begin() + 4 * kN + 256, 256, bad);
    const std::vector<float> out =
        problem.Multiply(0, kRows, 0, kTokens, kRows);
    for (size_t i = 0; i < kRows * kTokens; ++i) {
      EXPECT_EQ(std::isfinite(out[i]), i / kRows != 4) << i;
    }
  }
}

TEST_P(AmxMatMulTest, AScaleThatIsNotFiniteShowsInItsRowOnly) {
  constexpr size_t kRows = 37, kTokens = 35;
  // Infinities and a NaN, of F16 or of BF16.
  const auto not_finite = GetParam() == DType::kBF16
                              ? std::array<uint16_t, 3>{0x7F80, 0xFF80, 0x7FC0}
                              : std::array<uint16_t, 3>{0x7C00, 0xFC00, 0x7E00};
  for (size_t n : {32, 224, 256, 1280}) {
    if (n % block() != 0) continue;
    for (uint16_t scale : not_finite) {
      for (size_t bad : {0, 15, 16, 31, 36}) {
        AmxProblem problem(GetParam(), n, kRows, kTokens);
        problem.SetScale(bad, scale);
        const std::vector<float> out =
            problem.Multiply(0, kRows, 0, kTokens, kRows);
        for (size_t i = 0; i < kRows * kTokens; ++i) {
          ASSERT_EQ(std::isfinite(out[i]), i % kRows != bad)
              << "n " << n << ", row " << i % kRows << ", not finite " << bad;
        }
      }
    }
  }
}

TEST_P(AmxMatMulTest, NoRowsWriteNothing) {
  const AmxProblem problem(GetParam(), 256, 1, 1);
  EXPECT_EQ(problem.Multiply(0, 0, 0, 1, 0)[0], kSentinel);
}

#if defined(__x86_64__)
TEST(AmxBatchTest, SizesDoNotFallAsInputsGrow) {
  KernelTable table = {};
  FillAmxMatMuls(table);
  for (const BatchMatMul* batch : {&table.batch, &table.float_batch}) {
    for (size_t n = 32; n < 20000; n += 32) {
      EXPECT_EQ(batch->group_bytes(n) % 64, 0u);
      EXPECT_GE(batch->group_bytes(n + 32), batch->group_bytes(n));
      EXPECT_GE(batch->scratch_bytes(n + 32), batch->scratch_bytes(n));
    }
  }
}
#endif

TEST(AmxBatchTest, BelongsToTheAmxTable) {
  if (std::ranges::count(SupportedIsas(), Isa::kAmx) == 0) {
    GTEST_SKIP() << "needs a CPU with AMX";
  }
  for (DType dtype : BatchTypes()) {
    EXPECT_NE(BatchOf(dtype).multiply(dtype), nullptr);
    EXPECT_EQ(KernelsFor(Isa::kAmx).matmul(dtype),
              KernelsFor(Isa::kAvx512Vnni).matmul(dtype));
  }
}

}  // namespace
}  // namespace thermocline::kernels
