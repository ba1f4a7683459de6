#include "neuron/record_builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "tensor/codec.h"

namespace thermocline::neuron {
namespace {

std::unique_ptr<os::ThreadPool> MakePool(int num_threads) {
  return os::ThreadPool::Create({.num_threads = num_threads, .pin = false})
      .value();
}

struct Matrix {
  TensorView view;
  std::vector<std::byte> bytes;
  std::vector<float> values;  // as stored
};

Matrix RandomMatrix(DType dtype, uint64_t num_rows, uint64_t num_columns,
                    uint64_t seed) {
  Random random(seed);
  std::vector<float> values(num_rows * num_columns);
  for (float& value : values) value = random.Uniform(-1.0f, 1.0f);
  Matrix matrix;
  const size_t row_bytes = BytesOf(dtype, num_columns);
  matrix.bytes.resize(row_bytes * num_rows);
  matrix.values.resize(values.size());
  for (uint64_t i = 0; i < num_rows; ++i) {
    std::byte* row = matrix.bytes.data() + i * row_bytes;
    QuantizeRow(dtype, std::span(values).subspan(i * num_columns, num_columns),
                row);
    DequantizeRow(
        dtype, row,
        std::span(matrix.values).subspan(i * num_columns, num_columns));
  }
  matrix.view = {.dtype = dtype,
                 .shape = {.ne = {num_columns, num_rows, 1, 1}, .rank = 2},
                 .data = matrix.bytes.data()};
  return matrix;
}

// Records of all F neurons, made in two calls where there are more than 256.
struct Built {
  RecordLayout layout;
  std::vector<std::byte> records;
  DownCost cost;
};
Built Build(const RecordSource& source, DType down, uint64_t width,
            uint64_t num_neurons, int num_threads = 2) {
  std::optional<DType> gate;
  if (source.gate) gate = source.gate.dtype;
  Built built;
  built.layout = MakeRecordLayout(gate, source.up.dtype, down, width).value();
  built.records.assign(built.layout.stride * num_neurons, std::byte{0xaa});
  const auto pool = MakePool(num_threads);
  RecordBuilder builder(pool.get());
  const uint64_t first = std::min(num_neurons, RecordBuilder::kUnitNeurons);
  built.cost =
      builder.Build(built.layout, source, 0, first, built.records.data());
  if (first < num_neurons) {
    built.cost.Add(
        builder.Build(built.layout, source, first, num_neurons - first,
                      built.records.data() + first * built.layout.stride));
  }
  return built;
}

void ExpectRowsEqual(const TensorView& copies, const TensorView& rows) {
  ASSERT_EQ(copies.row_bytes(), rows.row_bytes());
  for (uint64_t i = 0; i < rows.shape.num_rows(); ++i) {
    ASSERT_EQ(std::memcmp(copies.row(i), rows.row(i), rows.row_bytes()), 0)
        << i;
  }
}

class BuildTypes : public ::testing::TestWithParam<DType> {};

// F is no multiple of kUnitNeurons where the type's blocks allow that; D is one
// of every block.
TEST_P(BuildTypes, GateAndUpAreCopiedDownIsTransposed) {
  const DType dtype = GetParam();
  constexpr uint64_t kWidth = 256;
  const uint64_t num_neurons = InfoOf(dtype).block_elems == 256 ? 512 : 320;
  const Matrix gate = RandomMatrix(dtype, num_neurons, kWidth, 1);
  const Matrix up = RandomMatrix(dtype, num_neurons, kWidth, 2);
  const Matrix down = RandomMatrix(dtype, kWidth, num_neurons, 3);
  const Built built =
      Build({.gate = gate.view, .up = up.view, .down = down.view}, dtype,
            kWidth, num_neurons);
  const RecordViews views =
      ViewRecords(built.layout, built.records.data(), num_neurons);
  ExpectRowsEqual(views.gate, gate.view);
  ExpectRowsEqual(views.up, up.view);
  // Each column as the codec gives it, and the cost as the sums say.
  DownCost cost;
  for (uint64_t i = 0; i < num_neurons; ++i) {
    std::vector<float> column(kWidth);
    for (uint64_t k = 0; k < kWidth; ++k) {
      column[k] = down.values[k * num_neurons + i];
    }
    std::vector<std::byte> expected(views.down_t.row_bytes());
    QuantizeRow(dtype, column, expected.data());
    ASSERT_EQ(
        std::memcmp(views.down_t.row(i), expected.data(), expected.size()), 0)
        << i;
    std::vector<float> written(kWidth);
    DequantizeRow(dtype, expected.data(), written);
    for (uint64_t k = 0; k < kWidth; ++k) {
      cost.squared_error += std::pow(double{written[k]} - column[k], 2);
      cost.squared_norm += std::pow(double{column[k]}, 2);
    }
  }
  EXPECT_NEAR(built.cost.RelativeError(), cost.RelativeError(), 1e-12);
  if (IsFloat(dtype)) {
    EXPECT_EQ(built.cost.RelativeError(), 0);
  } else {
    EXPECT_GT(built.cost.RelativeError(), 0);
    EXPECT_LT(built.cost.RelativeError(), 0.15);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BuildTypes,
    ::testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0,
                      DType::kQ4_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K,
                      DType::kQ6_K),
    [](const auto& param) { return std::string(NameOf(param.param)); });

TEST(RecordBuilderTest, GatesThatStayAMatrixAreLeftOut) {
  constexpr uint64_t kWidth = 32;
  constexpr uint64_t kNeurons = 64;
  const Matrix gate = RandomMatrix(DType::kF16, kNeurons, kWidth, 1);
  const Matrix up = RandomMatrix(DType::kF16, kNeurons, kWidth, 2);
  const Matrix down = RandomMatrix(DType::kF16, kWidth, kNeurons, 3);
  const auto layout =
      MakeRecordLayout(std::nullopt, DType::kF16, DType::kF16, kWidth).value();
  std::vector<std::byte> records(kNeurons * layout.stride);
  const auto pool = MakePool(1);
  RecordBuilder(pool.get())
      .Build(layout, {.gate = gate.view, .up = up.view, .down = down.view}, 0,
             kNeurons, records.data());
  const RecordViews views = ViewRecords(layout, records.data(), kNeurons);
  EXPECT_FALSE(views.gate);
  EXPECT_EQ(views.up.data, records.data());
  ExpectRowsEqual(views.up, up.view);
}

TEST(RecordBuilderTest, OddWidthsOfFloatsAndPadding) {
  constexpr uint64_t kWidth = 19;
  constexpr uint64_t kNeurons = 257;
  const Matrix up = RandomMatrix(DType::kF16, kNeurons, kWidth, 1);
  const Matrix down = RandomMatrix(DType::kF32, kWidth, kNeurons, 2);
  const Built built =
      Build({.up = up.view, .down = down.view}, DType::kF32, kWidth, kNeurons);
  const RecordViews views =
      ViewRecords(built.layout, built.records.data(), kNeurons);
  ExpectRowsEqual(views.up, up.view);
  for (uint64_t i = 0; i < kNeurons; ++i) {
    for (uint64_t k = 0; k < kWidth; ++k) {
      float value = 0;
      std::memcpy(&value, views.down_t.row(i) + k * 4, 4);
      ASSERT_EQ(value, down.values[k * kNeurons + i]);
    }
    for (size_t b = built.layout.used_bytes(); b < built.layout.stride; ++b) {
      ASSERT_EQ(built.records[i * built.layout.stride + b], std::byte{0});
    }
  }
}

// Q4_K, encoded again, would have other bytes.
TEST(RecordBuilderTest, ATransposedDownIsCopied) {
  const Matrix up = RandomMatrix(DType::kQ4_K, 64, 256, 1);
  const Matrix down_t = RandomMatrix(DType::kQ4_K, 64, 256, 2);
  // The other down matrix is not looked at: it has values of its own.
  const Matrix down = RandomMatrix(DType::kQ4_0, 256, 64, 3);
  const Built built =
      Build({.up = up.view, .down = down.view, .down_t = down_t.view},
            DType::kQ4_K, 256, 64);
  const RecordViews views = ViewRecords(built.layout, built.records.data(), 64);
  ExpectRowsEqual(views.down_t, down_t.view);
  EXPECT_EQ(built.cost.RelativeError(), 0);
}

TEST(RecordBuilderTest, RecordsAreASourceToo) {
  const Matrix gate = RandomMatrix(DType::kQ4_0, 64, 96, 1);
  const Matrix down = RandomMatrix(DType::kF16, 96, 64, 2);
  const Built first =
      Build({.gate = gate.view, .up = gate.view, .down = down.view},
            DType::kF16, 96, 64);
  const RecordViews views = ViewRecords(first.layout, first.records.data(), 64);
  const Built second =
      Build({.gate = views.gate, .up = views.up, .down_t = views.down_t},
            DType::kF16, 96, 64);
  EXPECT_EQ(first.records, second.records);
}

TEST(RecordBuilderTest, ABetterSourceCostsLess) {
  const Matrix up = RandomMatrix(DType::kQ4_0, 320, 256, 1);
  const Matrix exact = RandomMatrix(DType::kF32, 256, 320, 2);
  const Matrix rounded = RandomMatrix(DType::kQ4_0, 256, 320, 2);
  // Against the exact weights, encoding once beats encoding twice.
  const auto error_of = [&](const Matrix& source) {
    const Built built =
        Build({.up = up.view, .down = source.view}, DType::kQ4_0, 256, 320);
    const RecordViews views =
        ViewRecords(built.layout, built.records.data(), 320);
    double error = 0;
    std::vector<float> column(256);
    for (uint64_t i = 0; i < 320; ++i) {
      DequantizeRow(DType::kQ4_0, views.down_t.row(i), column);
      for (uint64_t k = 0; k < 256; ++k) {
        error += std::pow(double{column[k]} - exact.values[k * 320 + i], 2);
      }
    }
    return error;
  };
  EXPECT_LT(error_of(exact), 0.8 * error_of(rounded));
}

TEST(RecordBuilderTest, ThreadsChangeNothing) {
  const Matrix up = RandomMatrix(DType::kQ8_0, 1024, 64, 1);
  const Matrix down = RandomMatrix(DType::kQ8_0, 64, 1024, 2);
  const RecordSource source = {.up = up.view, .down = down.view};
  const Built one = Build(source, DType::kQ4_0, 64, 1024, 1);
  for (const int num_threads : {2, 3, 5}) {
    const Built more = Build(source, DType::kQ4_0, 64, 1024, num_threads);
    EXPECT_EQ(one.records, more.records);
    EXPECT_EQ(one.cost.squared_error, more.cost.squared_error);
    EXPECT_EQ(one.cost.squared_norm, more.cost.squared_norm);
  }
}

TEST(RecordBuilderTest, ValuesThatAreNotFiniteShowInTheCost) {
  const Matrix up = RandomMatrix(DType::kF32, 32, 32, 1);
  Matrix down = RandomMatrix(DType::kF32, 32, 32, 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(down.bytes.data() + 40, &nan, 4);
  const Built built =
      Build({.up = up.view, .down = down.view}, DType::kQ8_0, 32, 32);
  EXPECT_FALSE(std::isfinite(built.cost.RelativeError()));
}

TEST(DownCostTest, ZerosCostNothing) {
  EXPECT_EQ(DownCost().RelativeError(), 0);
  DownCost cost = {.squared_error = 1, .squared_norm = 3};
  cost.Add({.squared_error = 3, .squared_norm = 13});
  EXPECT_EQ(cost.RelativeError(), 0.5);
}

}  // namespace
}  // namespace thermocline::neuron
