#include "compute/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "compute/test_compute.h"
#include "os/thread_pool.h"
#include "os/topology.h"
#include "tensor/codec.h"

namespace thermocline::compute {
namespace {

using testing::OwnedTensor;
using testing::RandomFloats;
using testing::TestCompute;

constexpr size_t kInputWidth = 64;
constexpr size_t kTokens = 5;

struct Output {
  explicit Output(size_t num_rows, size_t num_tokens = kTokens)
      : floats(num_tokens * (num_rows + 3), 99.0f),
        rows{floats.data(), num_rows, num_rows + 3} {}
  std::vector<float> floats;  // rows with a gap that must stay 99
  Rows rows;
};

// Row counts that do not divide into pieces; several pieces each.
constexpr size_t kManyRows = 1001;
constexpr size_t kFewRows = 3;

struct Outputs {
  Output a{kManyRows}, b{kFewRows}, c{kManyRows};
};

// topology: of the pool's; null: this machine's.
void RunAll(int num_threads, Outputs& outputs,
            const os::Topology* topology = nullptr) {
  const TestCompute fixture(
      {.num_rows = kTokens, .width = kInputWidth, .num_threads = num_threads});
  const Rows& x = fixture.x();
  for (size_t t = 0; t < kTokens; ++t) {
    const auto values = RandomFloats(kInputWidth, 100 + t);
    std::copy(values.begin(), values.end(), x.row(t));
  }
  const auto values = RandomFloats(kManyRows * kInputWidth, 1);
  const OwnedTensor f32(DType::kF32, values, kInputWidth);
  const OwnedTensor few(DType::kF16,
                        std::span(values).first(kFewRows * kInputWidth),
                        kInputWidth);
  const OwnedTensor q8(DType::kQ8_0, values, kInputWidth);
  const OwnedTensor bias(DType::kF32, RandomFloats(kManyRows, 2), kManyRows);
  const std::array<Product, 3> products = {{
      {f32.view(), bias.view(), outputs.a.rows},
      {few.view(), TensorView(), outputs.b.rows},
      {q8.view(), bias.view(), outputs.c.rows},
  }};
  const auto pool = os::ThreadPool::Create(
      {.num_threads = num_threads, .pin = false, .topology = topology});
  ASSERT_TRUE(pool.has_value());
  Compute compute = fixture.compute();
  compute.pool = pool->get();
  MultiplyAll(compute, ProductForm::kRow, x, kTokens, products);
}

TEST(MatMul, SeveralTypesAtOnceAgainstPlainSums) {
  Outputs outputs;
  RunAll(2, outputs);
  const auto weights = RandomFloats(kManyRows * kInputWidth, 1);
  const auto bias = RandomFloats(kManyRows, 2);
  for (size_t t = 0; t < kTokens; ++t) {
    const auto x = RandomFloats(kInputWidth, 100 + t);
    for (size_t r = 0; r < kManyRows; ++r) {
      double dot = 0.0;
      for (size_t i = 0; i < kInputWidth; ++i) {
        dot += weights[r * kInputWidth + i] * x[i];
      }
      ASSERT_NEAR(outputs.a.rows.row(t)[r], dot + bias[r], 1e-4);
      // Two roundings to 8 bits, 64 terms.
      ASSERT_NEAR(outputs.c.rows.row(t)[r], dot + bias[r], 0.1);
      if (r < kFewRows) {
        ASSERT_NEAR(outputs.b.rows.row(t)[r], dot, 5e-3);
      }
    }
    EXPECT_EQ(outputs.a.rows.row(t)[kManyRows], 99.0f);
    EXPECT_EQ(outputs.b.rows.row(t)[kFewRows], 99.0f);
  }
}

// Then a piece is one row.
TEST(MatMul, RowsLongerThanAThreadTakesAtATime) {
  constexpr size_t kWide = 40000;
  const TestCompute fixture(
      {.num_rows = kTokens, .width = kWide, .num_threads = 2});
  const auto weights = RandomFloats(kFewRows * kWide, 1);
  const OwnedTensor matrix(DType::kF32, weights, kWide);
  const auto x = RandomFloats(kTokens * kWide, 2);
  const Rows& rows = fixture.x();
  for (size_t t = 0; t < kTokens; ++t) {
    std::copy_n(&x[t * kWide], kWide, rows.row(t));
  }
  for (const size_t num_tokens : {size_t{1}, kTokens}) {
    const Output output(kFewRows);
    const std::array<Product, 1> product = {
        {{matrix.view(), TensorView(), output.rows}}};
    MultiplyAll(fixture.compute(), ProductForm::kRow, rows, num_tokens,
                product);
    for (size_t t = 0; t < num_tokens; ++t) {
      for (size_t r = 0; r < kFewRows; ++r) {
        double dot = 0.0;
        for (size_t i = 0; i < kWide; ++i) {
          dot += double{weights[r * kWide + i]} * x[t * kWide + i];
        }
        EXPECT_NEAR(output.rows.row(t)[r], dot, 1e-2);
      }
    }
  }
}

TEST(MatMul, BitEqualForEveryThreadCount) {
  Outputs one;
  RunAll(1, one);
  for (const int num_threads : {2, 3, 7}) {
    Outputs many;
    RunAll(num_threads, many);
    EXPECT_EQ(one.a.floats, many.a.floats);
    EXPECT_EQ(one.b.floats, many.b.floats);
    EXPECT_EQ(one.c.floats, many.c.floats);
  }
}

// Products with enough tokens for every form of them (kernels/kernels.h).
class ManyTokens {
 public:
  static constexpr size_t kMany = 70;
  static constexpr size_t kN = 512;

  explicit ManyTokens(const std::array<DType, kMaxProducts>& types)
      : weights_{Weight(types[0], 203), Weight(types[1], 333),
                 Weight(types[2], 250)} {}

  // out[t] of every product, in rows with a gap.
  std::vector<Output> Run(kernels::Isa isa, int num_threads) const {
    const TestCompute fixture({.num_rows = kMany,
                               .width = kN,
                               .num_threads = num_threads,
                               .isa = isa});
    const Rows& x = fixture.x();
    for (size_t t = 0; t < kMany; ++t) {
      std::copy_n(x_.data() + t * kN, kN, x.row(t));
    }
    std::vector<Output> outputs;
    std::vector<Product> products;
    for (const Weight& weight : weights_) {
      outputs.emplace_back(weight.num_rows, kMany);
      products.push_back(
          {weight.matrix.view(), weight.bias.view(), outputs.back().rows});
    }
    MultiplyAll(fixture.compute(), ProductForm::kBatch, x, kMany, products);
    return outputs;
  }

  void ExpectNear(const std::vector<Output>& outputs) const {
    for (size_t i = 0; i < weights_.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(ExpectNear(outputs[i].rows, weights_[i])) << i;
    }
  }

 private:
  struct Weight {
    Weight(DType dtype, size_t rows)
        : num_rows(rows),
          matrix(dtype, RandomFloats(rows * kN, rows), kN),
          bias(DType::kF32, RandomFloats(rows, rows + 1), rows) {}
    size_t num_rows;
    OwnedTensor matrix, bias;
  };

  // Plain sums over the weights as they are stored.
  void ExpectNear(const Rows& out, const Weight& weight) const {
    const auto bias = RandomFloats(weight.num_rows, weight.num_rows + 1);
    std::vector<float> row(kN);
    for (size_t r = 0; r < weight.num_rows; ++r) {
      const TensorView& matrix = weight.matrix.view();
      DequantizeRow(matrix.dtype, matrix.row(r), row);
      double sum = 0.0;  // of |w|
      for (const float w : row) sum += std::abs(double{w});
      // Inputs, at most 1, rounded to 8 bits, or they and weights to bfloat16,
      // or inputs that meet 16 bits to two of bfloat16.
      const double error =
          IsFloat(matrix.dtype) ? 1e-4 + 0x1p-18 * sum : 0x1.1p-8 * sum;
      for (size_t t = 0; t < kMany; ++t) {
        double dot = bias[r];
        for (size_t i = 0; i < kN; ++i) dot += double{row[i]} * x_[t * kN + i];
        ASSERT_NEAR(out.row(t)[r], dot, error)
            << "row " << r << ", token " << t;
      }
    }
    for (size_t t = 0; t < kMany; ++t) {
      ASSERT_EQ(out.row(t)[weight.num_rows], 99.0f);
    }
  }

  std::vector<float> x_ = RandomFloats(kMany * kN, 3);
  std::array<Weight, kMaxProducts> weights_;
};

void ExpectRightWithEveryIsa(const std::array<DType, kMaxProducts>& types) {
  const ManyTokens problem(types);
  for (const kernels::Isa isa : compute::testing::IsasOfModels()) {
    SCOPED_TRACE(kernels::NameOf(isa));
    const std::vector<Output> one = problem.Run(isa, 1);
    problem.ExpectNear(one);
    for (const int num_threads : {2, 5}) {
      const std::vector<Output> many = problem.Run(isa, num_threads);
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(one[i].floats, many[i].floats) << num_threads << " " << i;
      }
    }
  }
}

// Of types that have such forms, and of one that has none beside them.
TEST(MatMul, ManyTokensWithEveryIsa) {
  ExpectRightWithEveryIsa({DType::kQ4_0, DType::kQ6_K, DType::kF16});
}

TEST(MatMul, ManyTokensOfFloatsWithEveryIsa) {
  ExpectRightWithEveryIsa({DType::kF16, DType::kBF16, DType::kF32});
}

// What a table gives whose products in F16 of a prompt are all sevens, for rows
// of width elements and a product in `beside` next to it.
float ProductInF16(size_t width, ProductForm form, DType beside) {
  const TestCompute fixture({.num_rows = kTokens, .width = width});
  kernels::KernelTable table = *fixture.compute().kernels;
  table.float_batch = {};
  table.float_batch.group_bytes = [](size_t) { return size_t{64}; };
  table.float_batch.pack = [](const float*, size_t, size_t, size_t,
                              std::byte*) {};
  table.float_batch.multiply_by_type[static_cast<uint32_t>(DType::kF16)] =
      [](const kernels::MatMulArgs& args) {
        std::fill_n(args.out, args.num_rows, 7.0f);
      };
  const Rows& x = fixture.x();
  for (size_t t = 0; t < kTokens; ++t) std::fill_n(x.row(t), width, 0.0f);
  const std::vector<float> zeros(width * kFewRows);
  const OwnedTensor half(DType::kF16, zeros, width);
  const OwnedTensor other(beside, zeros, width);
  const Output out(kFewRows), other_out(kFewRows);
  const std::array<Product, 2> products = {
      {{half.view(), TensorView(), out.rows},
       {other.view(), TensorView(), other_out.rows}}};
  Compute compute = fixture.compute();
  compute.kernels = &table;
  MultiplyAll(compute, form, x, kTokens, products);
  EXPECT_EQ(other_out.rows.row(0)[0], 0.0f);
  return out.rows.row(0)[0];
}

TEST(MatMul, FloatsHaveAFormOfTheirOwnWhereNothingIsQuantised) {
  using enum ProductForm;
  EXPECT_EQ(ProductInF16(64, kBatch, DType::kF32), 7.0f);
  EXPECT_EQ(ProductInF16(64, kRow, DType::kF32), 0.0f);
  EXPECT_EQ(ProductInF16(64, kBatch, DType::kQ8_0), 0.0f);
  EXPECT_EQ(ProductInF16(60, kBatch, DType::kF32), 0.0f);  // no whole blocks
}

TEST(MatMul, BitEqualForEveryNumberOfNodes) {
  Outputs one;
  RunAll(1, one);
  for (const int num_nodes : {2, 3}) {
    os::Topology topology{
        .cpus = {}, .num_cores = 6, .num_numa_nodes = num_nodes};
    for (int id = 0; id < 6; ++id) {
      topology.cpus.push_back(
          {.id = id, .core = id, .package = 0, .numa_node = id % num_nodes});
    }
    Outputs many;
    RunAll(5, many, &topology);
    EXPECT_EQ(one.a.floats, many.a.floats);
    EXPECT_EQ(one.b.floats, many.b.floats);
    EXPECT_EQ(one.c.floats, many.c.floats);
  }
}

}  // namespace
}  // namespace thermocline::compute
