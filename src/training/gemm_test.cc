#include "training/gemm.h"

#include <vector>

#include "base/random.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

using Floats = std::vector<float>;

Floats RandomFloats(size_t n, uint64_t seed) {
  Random random(seed);
  Floats out(n);
  for (float& value : out) value = random.Uniform(-1, 1);
  return out;
}

// Element (row, column) of op(matrix).
float At(const ConstMatrix& matrix, size_t row, size_t column) {
  return matrix.op == Op::kPlain ? matrix.data[row * matrix.stride + column]
                                 : matrix.data[column * matrix.stride + row];
}

struct Shape3 {
  size_t m, n, k;
};

TEST(GemmTest, EveryFormIsTheSumOfProducts) {
  const auto pool = TestPool(2);
  const Gemm gemm(pool.get());
  for (const auto [m, n, k] : {Shape3{1, 1, 1}, Shape3{3, 200, 17},
                               Shape3{1300, 5, 9}, Shape3{65, 64, 31}}) {
    const Floats a = RandomFloats(m * k, 1);
    const Floats b = RandomFloats(k * n, 2);
    for (const Op op_a : {Op::kPlain, Op::kTransposed}) {
      for (const Op op_b : {Op::kPlain, Op::kTransposed}) {
        const ConstMatrix left = {a.data(), op_a == Op::kPlain ? k : m, op_a};
        const ConstMatrix right = {b.data(), op_b == Op::kPlain ? n : k, op_b};
        Floats out(m * n, 1.0f);
        gemm.Multiply(left, right, m, n, k, 0.5f, out.data(), n);
        for (size_t row = 0; row < m; ++row) {
          for (size_t column = 0; column < n; ++column) {
            double want = 0.5;
            for (size_t i = 0; i < k; ++i) {
              want += double{At(left, row, i)} * At(right, i, column);
            }
            // k roundings of terms below 1 in size.
            EXPECT_NEAR(out[row * n + column], want,
                        1e-6 * static_cast<double>(k + 1));
          }
        }
      }
    }
  }
}

TEST(GemmTest, ThreadsChangeNoBit) {
  const size_t m = 70, n = 1100, k = 130;
  const Floats a = RandomFloats(m * k, 3);
  const Floats b = RandomFloats(n * k, 4);
  std::vector<Floats> results;
  for (const int num_threads : {1, 2, 5}) {
    const auto pool = TestPool(num_threads);
    results.emplace_back(m * n);
    Gemm(pool.get())
        .Multiply({a.data(), k}, {b.data(), k, Op::kTransposed}, m, n, k, 0.0f,
                  results.back().data(), n);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace thermocline::training
