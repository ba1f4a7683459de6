#include "kernels/testing.h"
#include "tensor/codec.h"

namespace thermocline::kernels {
namespace {

class FloatAddRowsTest : public IsaTest {};
TC_FOR_EACH_ISA(FloatAddRowsTest);

// A sum over every second of `num_rows` padded rows; out starts at 1.
struct Sum {
  Sum(DType dtype_arg, size_t num_rows, size_t n_arg)
      : dtype(dtype_arg),
        n(n_arg),
        weights(dtype, num_rows, n, 6, n + num_rows),
        coefs(RandomFloats((num_rows + 1) / 2, n + 1)) {
    for (uint32_t r = 0; r < num_rows; r += 2) ids.push_back(r);
  }

  // Columns [begin, end); the others, and one behind, stay 1.
  void Run(const KernelTable& kernels, size_t begin, size_t end,
           std::vector<float>& out) const {
    kernels.add_rows(dtype)({.rows = weights.data() + BytesOf(dtype, begin),
                             .row_bytes = weights.row_bytes(),
                             .ids = ids.data(),
                             .coefs = coefs.data(),
                             .num_rows = ids.size(),
                             .n = end - begin,
                             .out = out.data() + begin});
  }
  std::vector<float> Run(const KernelTable& kernels) const {
    std::vector<float> out(n + 1, 1.0f);
    Run(kernels, 0, n, out);
    return out;
  }

  std::vector<double> Magnitudes() const {
    std::vector<double> sums(n + 1, 1.0);
    std::vector<float> row(n);
    for (size_t i = 0; i < ids.size(); ++i) {
      DequantizeRow(dtype, weights.row(ids[i]), row);
      for (size_t c = 0; c < n; ++c) sums[c] += std::abs(coefs[i] * row[c]);
    }
    return sums;
  }

  // By how much rounded coefficients may change the columns: half a step of
  // 127 in the largest of a group, for each of its rows, times its quant.
  std::vector<double> CoefRoundings() const {
    std::vector<double> sums(n + 1, 0.0);
    const double largest_quant = dtype == DType::kQ4_0 ? 8 : 15;
    for (size_t begin = 0; begin < ids.size(); begin += kAddRowsGroup) {
      const size_t end = std::min(begin + kAddRowsGroup, ids.size());
      std::vector<double> largest(n, 0.0);
      for (size_t i = begin; i < end; ++i) {
        const auto scales = NibbleScales(dtype, weights.row(ids[i]), n);
        for (size_t c = 0; c < n; ++c) {
          const double product = std::abs(coefs[i] * scales[c]);
          largest[c] = std::max(largest[c], product);
        }
      }
      const double num_rows = static_cast<double>(end - begin);
      for (size_t c = 0; c < n; ++c) {
        sums[c] += num_rows * largest_quant * largest[c] / 254;
      }
    }
    return sums;
  }

  DType dtype;
  size_t n;
  WeightRows weights;
  std::vector<uint32_t> ids;
  std::vector<float> coefs;
};

TEST_P(FloatAddRowsTest, AgreesWithScalarAtOddSizes) {
  for (DType dtype : AllTypes()) {
    const size_t block = InfoOf(dtype).block_elems;
    for (size_t n : kOddSizes) {
      if (n % block != 0) n = (n / block + 1) * block;
      for (size_t num_rows : {1, 7, 8, 9, 18, 35}) {
        const Sum sum(dtype, num_rows, n);
        const std::vector<float> out = sum.Run(kernels());
        const std::vector<float> truth = sum.Run(scalar());
        const std::vector<double> magnitudes = sum.Magnitudes();
        const std::vector<double> coef_roundings =
            RoundsCoefs(GetParam(), dtype) ? sum.CoefRoundings()
                                           : std::vector<double>(n + 1);
        // One rounding per term's addition, one in each term, and the scalar
        // result's own.
        const double roundings = static_cast<double>(sum.ids.size()) + 2;
        for (size_t c = 0; c < n; ++c) {
          ASSERT_NEAR(out[c], truth[c],
                      roundings * kRounding * magnitudes[c] + coef_roundings[c])
              << NameOf(dtype) << " n " << n << " column " << c << ", "
              << num_rows << " rows";
        }
        ASSERT_EQ(out[n], 1.0f) << "written beyond the columns";
      }
    }
  }
}

TEST_P(FloatAddRowsTest, AnyCutOfTheColumnsGivesTheSameBits) {
  for (DType dtype : AllTypes()) {
    const size_t block = InfoOf(dtype).block_elems;
    const size_t n = block == 1 ? 173 : 5 * block;
    const Sum sum(dtype, 13, n);
    const std::vector<float> whole = sum.Run(kernels());
    for (size_t blocks_per_cut : {1, 2, 3, 40}) {
      const size_t step = blocks_per_cut * block;
      std::vector<float> cut(n + 1, 1.0f);
      for (size_t begin = 0; begin < n; begin += step) {
        sum.Run(kernels(), begin, std::min(begin + step, n), cut);
      }
      EXPECT_TRUE(SameBits(cut, whole)) << NameOf(dtype) << " step " << step;
    }
  }
}

}  // namespace
}  // namespace thermocline::kernels
