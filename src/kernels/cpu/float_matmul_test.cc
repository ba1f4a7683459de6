#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

class FloatMatMulTest : public IsaTest {};
TC_FOR_EACH_ISA(FloatMatMulTest);

// A product with padded rows and tokens; out starts as sentinels.
struct Product {
  Product(DType dtype_arg, size_t num_rows_arg, size_t n_arg,
          size_t num_tokens_arg, size_t pad = 6)
      : dtype(dtype_arg),
        num_rows(num_rows_arg),
        n(n_arg),
        num_tokens(num_tokens_arg),
        weights(dtype, num_rows, n, pad, n + num_rows),
        x(RandomFloats((num_tokens - 1) * x_stride() + n, n + 1)) {}

  size_t x_stride() const { return n + 3; }
  size_t out_stride() const { return num_rows + 2; }

  // All of the outputs, or with a range the others stay sentinels.
  std::vector<float> NewOut() const {
    return std::vector<float>(num_tokens * out_stride(), kSentinel);
  }
  void Run(const KernelTable& kernels, size_t row, size_t row_end, size_t token,
           size_t token_end, std::vector<float>& out) const {
    kernels.matmul(dtype)({.weights = weights.row(row),
                           .row_bytes = weights.row_bytes(),
                           .num_rows = row_end - row,
                           .n = n,
                           .x = AsBytes(x.data() + token * x_stride()),
                           .x_stride_bytes = x_stride() * sizeof(float),
                           .num_tokens = token_end - token,
                           .out = out.data() + token * out_stride() + row,
                           .out_stride = out_stride()});
  }
  std::vector<float> Run(const KernelTable& kernels) const {
    std::vector<float> out = NewOut();
    Run(kernels, 0, num_rows, 0, num_tokens, out);
    return out;
  }

  DType dtype;
  size_t num_rows, n, num_tokens;
  WeightRows weights;
  std::vector<float> x;
};

// sum_i |w[r][i] * x[t][i]|, by products with one-row views of |w|.
double Magnitude(const Product& p, size_t r, size_t t) {
  double sum = 0;
  for (size_t i = 0; i < p.n; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, p.weights.row(r) + i * BytesOf(p.dtype, 1),
                BytesOf(p.dtype, 1));
    const auto half = static_cast<uint16_t>(bits);
    const float w = p.dtype == DType::kF32   ? std::bit_cast<float>(bits)
                    : p.dtype == DType::kF16 ? F16ToF32(half)
                                             : BF16ToF32(half);
    sum += std::abs(static_cast<double>(w) * p.x[t * p.x_stride() + i]);
  }
  return sum;
}

void ExpectClose(const Product& p, const std::vector<float>& out,
                 const std::vector<float>& truth) {
  // One rounding per term of a lane (four lanes at least), some for the sum
  // of the lanes, and the scalar result's own.
  const double roundings = static_cast<double>(p.n) / 4 + 8;
  for (size_t t = 0; t < p.num_tokens; ++t) {
    for (size_t r = 0; r < p.num_rows; ++r) {
      const size_t place = t * p.out_stride() + r;
      ASSERT_NEAR(out[place], truth[place],
                  roundings * kRounding * Magnitude(p, r, t))
          << NameOf(p.dtype) << " n " << p.n << " row " << r << " of "
          << p.num_rows << " token " << t << " of " << p.num_tokens;
    }
    for (size_t r = p.num_rows; r < p.out_stride(); ++r) {
      ASSERT_EQ(out[t * p.out_stride() + r], kSentinel)
          << "written beyond the rows";
    }
  }
}

TEST_P(FloatMatMulTest, AgreesWithScalarAtOddSizes) {
  for (DType dtype : kFloatTypes) {
    for (size_t n : kOddSizes) {
      for (size_t num_rows : {1, 3, 4, 9}) {
        for (size_t num_tokens : {1, 2, 3, 4, 7}) {
          const Product p(dtype, num_rows, n, num_tokens);
          ExpectClose(p, p.Run(kernels()), p.Run(scalar()));
        }
      }
    }
  }
}

// As many streams as there are, prefetched or not, and a wide input too.
TEST_P(FloatMatMulTest, AmdsVersionGivesTheSameBits) {
  const KernelTable prefetched = MakeTable(GetParam(), false);
  const KernelTable unprefetched = MakeTable(GetParam(), true);
  for (DType dtype : kFloatTypes) {
    for (size_t n : {37, 4096, 4099, 5000}) {
      for (size_t num_rows : {1, 5, 6, 7, 16, 23, 47}) {
        const Product p(dtype, num_rows, n, 1);
        const std::vector<float> out = p.Run(prefetched);
        ExpectClose(p, out, p.Run(scalar()));
        ASSERT_TRUE(SameBits(p.Run(unprefetched), out))
            << NameOf(dtype) << " n " << n << " rows " << num_rows;
      }
    }
  }
}

// Streams a multiple of a page apart, also by what is between their rows, and
// others.
TEST_P(FloatMatMulTest, StaggeredStreamsGiveTheSameBits) {
  const KernelTable prefetched = MakeTable(GetParam(), false);
  const auto expect_same = [&](const Product& p) {
    std::vector<float> row_by_row = p.NewOut();
    for (size_t r = 0; r < p.num_rows; ++r) {
      p.Run(prefetched, r, r + 1, 0, 1, row_by_row);
    }
    ASSERT_TRUE(SameBits(p.Run(prefetched), row_by_row))
        << NameOf(p.dtype) << " n " << p.n << " rows " << p.num_rows;
  };
  for (DType dtype : kFloatTypes) {
    for (size_t n : {256, 512, 768, 2048, 2056, 2304, 4096}) {
      for (size_t num_rows : {16, 17, 19, 32, 35, 48, 64}) {
        ASSERT_NO_FATAL_FAILURE(expect_same({dtype, num_rows, n, 1, 0}));
      }
    }
    const size_t pad = kPageBytes - BytesOf(dtype, 768);
    ASSERT_NO_FATAL_FAILURE(expect_same({dtype, 16, 768, 1, pad}));
  }
}

TEST_P(FloatMatMulTest, AnyCutGivesTheSameBits) {
  constexpr size_t kRows = 11, kTokens = 9;
  for (DType dtype : kFloatTypes) {
    for (size_t n : {5, 64, 172, 257}) {
      const Product p(dtype, kRows, n, kTokens);
      const std::vector<float> whole = p.Run(kernels());
      for (size_t row_step : {1, 2, 3, 4, 5, 8, 11}) {
        for (size_t token_step : {1, 2, 3, 4, 5, 9}) {
          std::vector<float> cut = p.NewOut();
          for (size_t r = 0; r < kRows; r += row_step) {
            for (size_t t = 0; t < kTokens; t += token_step) {
              p.Run(kernels(), r, std::min(r + row_step, kRows), t,
                    std::min(t + token_step, kTokens), cut);
            }
          }
          ASSERT_TRUE(SameBits(cut, whole))
              << NameOf(dtype) << " n " << n << " steps " << row_step << ", "
              << token_step;
        }
      }
    }
  }
}

// More tokens than one chunk that fits the cache.
TEST_P(FloatMatMulTest, ManyTokensAreOneByOne) {
  const Product p(DType::kF16, 5, 4100, 45);
  const std::vector<float> whole = p.Run(kernels());
  std::vector<float> cut = p.NewOut();
  for (size_t t = 0; t < p.num_tokens; ++t) {
    p.Run(kernels(), 0, p.num_rows, t, t + 1, cut);
  }
  EXPECT_TRUE(SameBits(cut, whole));
}

TEST_P(FloatMatMulTest, NonFiniteWeightsReachOnlyTheirRow) {
  std::vector<float> weights(3 * 19, 1.0f);
  weights[19 + 18] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x(19, 1.0f);
  float out[3];
  kernels().matmul(DType::kF32)({.weights = AsBytes(weights.data()),
                                 .row_bytes = 19 * sizeof(float),
                                 .num_rows = 3,
                                 .n = 19,
                                 .x = AsBytes(x.data()),
                                 .x_stride_bytes = 19 * sizeof(float),
                                 .num_tokens = 1,
                                 .out = out,
                                 .out_stride = 3});
  EXPECT_EQ(out[0], 19);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_EQ(out[2], 19);
}

}  // namespace
}  // namespace thermocline::kernels
