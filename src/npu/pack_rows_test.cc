#include "npu/pack_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline::npu {
namespace {

// Random numbers in a type, and what they are when decoded.
struct FileMatrix {
  FileMatrix(DType dtype, size_t rows, size_t columns) {
    Random random(9);
    values.resize(rows * columns);
    for (float& value : values) value = random.Uniform(-0.2f, 0.2f);
    bytes.resize(BytesOf(dtype, values.size()));
    QuantizeRow(dtype, values, bytes.data());
    DequantizeRow(dtype, bytes.data(), values);
    view = {.dtype = dtype,
            .shape = {.ne = {columns, rows, 1, 1}, .rank = 2},
            .data = bytes.data()};
  }
  float at(size_t row, size_t column) const {
    return values[row * view.shape.ne[0] + column];
  }
  std::vector<float> values;
  std::vector<std::byte> bytes;
  TensorView view;
};

// A matrix as it is packed, decoded one by one from the bytes.
class PackedMatrix {
 public:
  PackedMatrix(const MatrixSource& source, const Packing& packing)
      : packing_(packing),
        columns_(source.columns()),
        types_(TypesOf(packing, source.rows(), source.columns())),
        weight_(NumBytes(types_.weight)),
        scale_(types_.scale ? NumBytes(*types_.scale) : 0),
        zero_(types_.zero ? NumBytes(*types_.zero) : 0) {
    status = PackMatrix(source, packing,
                        {.weight = weight_.data(),
                         .scale = types_.scale ? scale_.data() : nullptr,
                         .zero = types_.zero ? zero_.data() : nullptr},
                        &relative_error);
  }

  double at(size_t row, size_t column) const {
    const size_t i = row * columns_ + column;
    if (packing_.group == 0) return HalfAt(weight_, i);
    const int zero = types_.zero ? CodeAt(zero_, types_.zero->element, row) : 0;
    return HalfAt(scale_, i / packing_.group) *
           (CodeAt(weight_, packing_.element, i) - zero);
  }

  Status status;
  double relative_error = -1.0;

 private:
  static double HalfAt(const std::vector<std::byte>& bytes, size_t i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    return double{F16ToF32(half)};
  }
  static int CodeAt(const std::vector<std::byte>& bytes, Element element,
                    size_t i) {
    const bool is_small = element == Element::kI4 || element == Element::kU4;
    const int code =
        is_small ? std::to_integer<int>(bytes[i / 2]) >> (i % 2 * 4) & 15
                 : std::to_integer<int>(bytes[i]);
    if (element == Element::kI4) return code < 8 ? code : code - 16;
    if (element == Element::kI8) return code < 128 ? code : code - 256;
    return code;
  }

  Packing packing_;
  size_t columns_;
  PackedTypes types_;
  std::vector<std::byte> weight_;
  std::vector<std::byte> scale_;
  std::vector<std::byte> zero_;
};

constexpr DType kComputable[] = {DType::kF32,  DType::kF16,  DType::kBF16,
                                 DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                                 DType::kQ5_0, DType::kQ5_1, DType::kQ4_K,
                                 DType::kQ5_K, DType::kQ6_K};

// Every type in every form, straight, with its rows in another order, and
// transposed. What is told of the error is what there is.
TEST(PackRowsTest, EveryTypeInEveryForm) {
  struct Bound {
    WeightForm form;
    double error;
  };
  const Bound bounds[] = {
      {WeightForm::kExact, 4e-4},        {WeightForm::kF16, 3e-4},
      {WeightForm::kI8Channel, 0.01},    {WeightForm::kI4Channel, 0.2},
      {WeightForm::kI4Group128, 0.2},    {WeightForm::kI8Asymmetric, 0.01},
      {WeightForm::kI4Asymmetric, 0.15},
  };
  for (const DType dtype : kComputable) {
    const FileMatrix file(dtype, 5, 256);
    for (const auto& [form, bound] : bounds) {
      for (int kind = 0; kind < 3; ++kind) {
        SCOPED_TRACE(std::string(NameOf(dtype)) + " as " +
                     std::string(NameOf(form)) + ", " + std::to_string(kind));
        MatrixSource source = {.view = file.view, .is_transposed = kind == 2};
        if (kind == 1) source.order = {4, 2, 0, 1, 3};
        const PackedMatrix packed(
            source,
            PackingOf(form, dtype, source.is_transposed, source.columns()));
        ASSERT_TRUE(packed.status.has_value());
        double error = 0.0;
        double power = 0.0;
        for (size_t r = 0; r < source.rows(); ++r) {
          for (size_t c = 0; c < source.columns(); ++c) {
            const size_t from = kind == 1 ? source.order[r] : r;
            const double expected =
                double{kind == 2 ? file.at(c, r) : file.at(from, c)};
            error += std::pow(packed.at(r, c) - expected, 2);
            power += expected * expected;
          }
        }
        EXPECT_NEAR(packed.relative_error, std::sqrt(error / power), 1e-9);
        EXPECT_LE(packed.relative_error, bound);
      }
    }
  }
}

TEST(PackRowsTest, ExactIsExactWhereDevicesHaveTheForm) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kF16}) {
    const FileMatrix file(dtype, 3, 64);
    const PackedMatrix packed({.view = file.view},
                              PackingOf(WeightForm::kExact, dtype, false, 64));
    EXPECT_EQ(packed.relative_error, 0.0);
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(packed.at(2, i), double{file.at(2, i)});
    }
  }
}

// Rows of records have other things between them.
TEST(PackRowsTest, RowsMayLieApart) {
  const FileMatrix file(DType::kQ8_0, 2, 32);
  std::vector<std::byte> records(300, std::byte{0xff});
  std::ranges::copy_n(file.bytes.begin(), 34, records.begin());
  std::ranges::copy_n(file.bytes.begin() + 34, 34, records.begin() + 200);
  TensorView view = file.view;
  view.data = records.data();
  view.stride_bytes = 200;
  for (const bool is_transposed : {false, true}) {
    const MatrixSource source = {.view = view, .is_transposed = is_transposed};
    const PackedMatrix packed(source, Packing());
    ASSERT_TRUE(packed.status.has_value());
    const double got = is_transposed ? packed.at(7, 1) : packed.at(1, 7);
    EXPECT_NEAR(got, double{file.at(1, 7)}, 1e-4);
  }
}

// Rows of an odd number of 4-bit elements share bytes.
TEST(PackRowsTest, OddRowsOfFourBits) {
  const FileMatrix file(DType::kF32, 4, 7);
  const PackedMatrix packed(
      {.view = file.view},
      PackingOf(WeightForm::kI4Channel, DType::kF32, false, 7));
  for (size_t r = 0; r < 4; ++r) {
    for (size_t c = 0; c < 7; ++c) {
      EXPECT_NEAR(packed.at(r, c), double{file.at(r, c)}, 0.03);
    }
  }
}

TEST(PackRowsTest, WhatF16CannotHoldIsRefusedByRow) {
  FileMatrix floats(DType::kF32, 3, 32);
  const float large = 1e5f;
  std::memcpy(floats.bytes.data() + 4 * 40, &large, 4);
  FileMatrix blocks(DType::kQ8_0, 3, 32);
  const uint16_t large_scale = F32ToF16(60000.0f);
  std::memcpy(blocks.bytes.data() + 34, &large_scale, 2);
  FileMatrix halves(DType::kF16, 3, 32);
  const uint16_t not_a_number = 0x7e00;
  std::memcpy(halves.bytes.data() + 2 * 40, &not_a_number, 2);
  for (const FileMatrix* file : {&floats, &blocks, &halves}) {
    const DType dtype = file->view.dtype;
    for (const WeightForm form : {WeightForm::kExact, WeightForm::kI8Channel}) {
      const PackedMatrix packed({.view = file->view},
                                PackingOf(form, dtype, false, 32));
      ASSERT_FALSE(packed.status.has_value()) << NameOf(dtype);
      EXPECT_EQ(packed.status.error().code, ErrorCode::kInvalidArgument);
      EXPECT_TRUE(packed.status.error().message.starts_with("row 1: "))
          << packed.status.error().message;
    }
  }
}

// Of Q8_0 the largest scale whose elements still fit.
TEST(PackRowsTest, LargeScalesOfSmallNumbersAreTaken) {
  FileMatrix file(DType::kQ8_0, 1, 32);
  const uint16_t scale = F32ToF16(1000.0f);
  std::memcpy(file.bytes.data(), &scale, 2);
  std::fill_n(file.bytes.begin() + 2, 32, std::byte{60});
  const PackedMatrix packed({.view = file.view}, {Element::kI8, 32});
  EXPECT_TRUE(packed.status.has_value());
  EXPECT_EQ(packed.at(0, 3), 60000.0);
}

}  // namespace
}  // namespace thermocline::npu
