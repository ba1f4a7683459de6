// How coefficients are rounded: other tests hold how far that may lead.
#include "kernels/cpu/int8_add_rows.h"

#include "kernels/testing.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline::kernels {
namespace {

class Int8AddRowsTest : public IsaTest {};
TC_FOR_EACH_ISA(Int8AddRowsTest);

// A row as quants of four bits: element i is scale[i] * quant[i] + rest[i]. The
// zero point of Q4_0 is part of its quants.
struct Row {
  Row(DType dtype, const std::byte* bytes, size_t n)
      : scale(NibbleScales(dtype, bytes, n)), quant(n), rest(n) {
    std::vector<float> values(n);
    DequantizeRow(dtype, bytes, values);
    std::vector<std::byte> zeros(bytes, bytes + BytesOf(dtype, n));
    const DTypeInfo& info = InfoOf(dtype);
    for (size_t end = info.block_bytes; end <= zeros.size();
         end += info.block_bytes) {
      std::memset(zeros.data() + end - info.block_elems / 2, 0,
                  info.block_elems / 2);
    }
    std::vector<float> least(n);
    DequantizeRow(dtype, zeros.data(), least);
    for (size_t i = 0; i < n; ++i) {
      const bool has_zero_point = dtype == DType::kQ4_0;
      rest[i] = has_zero_point ? 0 : least[i];
      const double part = double{values[i]} - rest[i];
      quant[i] = scale[i] == 0 ? 0 : std::round(part / scale[i]);
    }
  }
  std::vector<float> scale;
  std::vector<double> quant, rest;
};

struct Expected {
  double value = 1;
  double slack = 2e-5;  // for what lies between two bytes
};

// Adds what the rows of one group add to column c.
void AddGroup(std::span<const Row> rows, std::span<const float> coefs, size_t c,
              Expected& sum) {
  double largest = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const double product = std::abs(double{coefs[r]} * rows[r].scale[c]);
    largest = std::max(largest, product);
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const double product = double{coefs[r]} * rows[r].scale[c];
    const double share = largest == 0 ? 0 : product / largest * 127;
    const double step = largest / 127 * rows[r].quant[c];
    sum.value += std::nearbyint(share) * step + coefs[r] * rows[r].rest[c];
    const double to_next = std::abs(share - std::floor(share) - 0.5);
    if (to_next < 1e-4) sum.slack += std::abs(step);
  }
}

TEST_P(Int8AddRowsTest, RoundsAgainstTheLargestOfEightRowsInABlock) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_K}) {
    if (!RoundsCoefs(GetParam(), dtype)) continue;  // float_add_rows_test.cc
    const std::vector<size_t> widths = dtype == DType::kQ4_0
                                           ? std::vector<size_t>{32, 288, 4384}
                                           : std::vector<size_t>{256, 4352};
    for (size_t n : widths) {
      for (size_t num_rows : {1, 3, 4, 5, 8, 9, 19}) {
        const WeightRows weights(dtype, num_rows, n, 6, n + num_rows);
        const std::vector<float> coefs = RandomFloats(num_rows, n);
        std::vector<Row> rows;
        for (size_t r = 0; r < num_rows; ++r) {
          rows.emplace_back(dtype, weights.row(r), n);
        }
        std::vector<float> out(n, 1.0f);
        kernels().add_rows(dtype)({.rows = weights.data(),
                                   .row_bytes = weights.row_bytes(),
                                   .ids = nullptr,
                                   .coefs = coefs.data(),
                                   .num_rows = num_rows,
                                   .n = n,
                                   .out = out.data()});
        for (size_t c = 0; c < n; ++c) {
          Expected expected;
          for (size_t r = 0; r < num_rows; r += kAddRowsGroup) {
            const size_t count = std::min(kAddRowsGroup, num_rows - r);
            AddGroup(std::span(rows).subspan(r, count),
                     std::span(coefs).subspan(r, count), c, expected);
          }
          ASSERT_NEAR(out[c], expected.value, expected.slack)
              << NameOf(dtype) << " n " << n << " column " << c << ", "
              << num_rows << " rows";
        }
      }
    }
  }
}

// Rows of equal blocks of ones times a nibble (Q4_0: less its zero point).
std::vector<std::byte> EqualRows(DType dtype, size_t num_rows, int nibble) {
  const DTypeInfo& info = InfoOf(dtype);
  std::vector<std::byte> rows(num_rows * BytesOf(dtype, kSuperBlock));
  const uint16_t one = F32ToF16(1.0f);
  for (size_t at = 0; at < rows.size(); at += info.block_bytes) {
    std::byte* block = rows.data() + at;
    std::memset(block, 0, info.block_bytes);
    std::memcpy(block, &one, sizeof(one));
    if (dtype == DType::kQ4_K) {
      // Scales of one, minima of zero (tensor/codec.h).
      std::memset(block + 4, 1, 4);
      std::memset(block + 12, 1, 4);
    }
    const size_t quants_bytes = info.block_elems / 2;
    std::memset(block + info.block_bytes - quants_bytes, 0x11 * nibble,
                quants_bytes);
  }
  return rows;
}

std::vector<float> AddEqualRows(const KernelTable& kernels, DType dtype,
                                int nibble, const std::vector<float>& coefs) {
  const std::vector<std::byte> rows = EqualRows(dtype, coefs.size(), nibble);
  std::vector<float> out(kSuperBlock, 0.0f);
  kernels.add_rows(dtype)({.rows = rows.data(),
                           .row_bytes = BytesOf(dtype, kSuperBlock),
                           .ids = nullptr,
                           .coefs = coefs.data(),
                           .num_rows = coefs.size(),
                           .n = kSuperBlock,
                           .out = out.data()});
  return out;
}

TEST_P(Int8AddRowsTest, TheLargestSumsOfAGroupFit) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_K}) {
    for (int nibble : {0, 15}) {
      const int quant = nibble - (dtype == DType::kQ4_0 ? 8 : 0);
      for (float coef : {1.0f, -1.0f}) {
        const std::vector<float> coefs(kAddRowsGroup, coef);
        const double expected = kAddRowsGroup * coef * quant;
        for (float value : AddEqualRows(kernels(), dtype, nibble, coefs)) {
          ASSERT_NEAR(value, expected, 1e-4) << NameOf(dtype);
        }
      }
    }
  }
}

// Too small for a factor that makes 127 of it. Floats have no need of one.
TEST_P(Int8AddRowsTest, NothingToRoundAgainstAddsNothing) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_K}) {
    const double quant = dtype == DType::kQ4_0 ? 7 : 15;
    for (float coef : {0.0f, -0.0f, 3e-37f, 1e-38f, 1e-44f, -1e-44f}) {
      const std::vector<float> coefs(kAddRowsGroup, coef);
      const double expected = RoundsCoefs(GetParam(), dtype)
                                  ? 0
                                  : kAddRowsGroup * double{coef} * quant;
      for (float value : AddEqualRows(kernels(), dtype, 15, coefs)) {
        ASSERT_NEAR(value, expected, 1e-6 * std::abs(expected))
            << NameOf(dtype) << " " << coef;
      }
    }
  }
}

TEST_P(Int8AddRowsTest, FillsTwoTypesWhereBytesCanBeMultiplied) {
  KernelTable table = {};
  FillInt8AddRows(GetParam(), table);
  for (uint32_t id = 0; id < std::size(table.add_rows_by_type); ++id) {
    EXPECT_EQ(table.add_rows_by_type[id] != nullptr,
              RoundsCoefs(GetParam(), static_cast<DType>(id)))
        << id;
  }
}

}  // namespace
}  // namespace thermocline::kernels
