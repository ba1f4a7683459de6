#include "training/gate_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "tensor/codec.h"
#include "training/cholesky.h"
#include "training/input_moments.h"

namespace thermocline::training {
namespace {

constexpr size_t kGateRowGrain = 32;

float Product(const float* a, const std::vector<float>& b) {
  return static_cast<float>(std::inner_product(b.begin(), b.end(), a, 0.0));
}

// [D, D]: E[(a - E a) (b - E b)^T], for a of `left` and b of `right`.
std::vector<float> CrossCovariance(const Gemm& gemm, const Samples& left,
                                   const std::vector<float>& left_mean,
                                   const Samples& right,
                                   const std::vector<float>& right_mean) {
  const size_t width = left.width;
  std::vector<float> out(width * width);
  std::vector<float> a(std::min(kMomentBatch, left.num_samples) * width);
  std::vector<float> b(a.size());
  for (size_t begin = 0; begin < left.num_samples; begin += kMomentBatch) {
    const size_t count = std::min(kMomentBatch, left.num_samples - begin);
    for (size_t n = 0; n < count; ++n) {
      left.LoadInput(begin + n, &a[n * width]);
      right.LoadInput(begin + n, &b[n * width]);
      for (size_t i = 0; i < width; ++i) {
        a[n * width + i] -= left_mean[i];
        b[n * width + i] -= right_mean[i];
      }
    }
    gemm.Multiply({a.data(), width, Op::kTransposed}, {b.data(), width}, width,
                  width, count, 1.0f, out.data(), width);
  }
  for (float& value : out) value /= static_cast<float>(left.num_samples);
  return out;
}

// Solves (covariance + a little) x = right in place, right [D, D].
void SolveWith(const Gemm& gemm, const std::vector<float>& covariance,
               size_t width, std::vector<float>& right) {
  std::vector<double> triangle(covariance.begin(), covariance.end());
  double trace = 0;
  for (size_t i = 0; i < width; ++i) trace += triangle[i * width + i];
  // Directions with next to no variance would be believed beyond measure.
  const double little = 1e-4 * trace / static_cast<double>(width) + 1e-12;
  for (size_t i = 0; i < width; ++i) triangle[i * width + i] += little;
  Cholesky(triangle, width);
  SolveByTriangle(gemm, triangle, width, right, width);
}

}  // namespace

GateRows ReadGate(const Gemm& gemm, const TensorView& gate,
                  const TensorView& bias, float input_scale) {
  const size_t width = gate.shape.ne[0];
  const size_t num_neurons = gate.shape.num_rows();
  GateRows out = {.rows = std::vector<float>(num_neurons * width),
                  .biases = std::vector<float>(num_neurons)};
  gemm.pool().ParallelFor(num_neurons, kGateRowGrain,
                          [&](size_t begin, size_t end, int) {
                            for (size_t i = begin; i < end; ++i) {
                              const std::span row(&out.rows[i * width], width);
                              DequantizeRow(gate.dtype, gate.row(i), row);
                              for (float& value : row) value /= input_scale;
                            }
                          });
  if (bias) std::memcpy(out.biases.data(), bias.data, num_neurons * 4);
  return out;
}

InputGuess FitGuess(const Gemm& gemm, const Samples& earlier,
                    const Samples& own) {
  TC_CHECK(earlier.num_samples == own.num_samples);
  InputMoments from = ComputeMoments(gemm, earlier);
  InputMoments to = ComputeMoments(gemm, own);
  InputGuess guess;
  guess.map = CrossCovariance(gemm, earlier, from.mean, own, to.mean);
  SolveWith(gemm, from.covariance, own.width, guess.map);
  guess.earlier_mean = std::move(from.mean);
  guess.own_mean = std::move(to.mean);
  return guess;
}

GateRows LookAhead(const Gemm& gemm, const GateRows& gate,
                   const InputGuess& guess) {
  const size_t width = guess.own_mean.size();
  const size_t num_neurons = gate.biases.size();
  GateRows out = {.rows = std::vector<float>(num_neurons * width),
                  .biases = gate.biases};
  gemm.Multiply({gate.rows.data(), width},
                {guess.map.data(), width, Op::kTransposed}, num_neurons, width,
                width, 0.0f, out.rows.data(), width);
  for (size_t i = 0; i < num_neurons; ++i) {
    out.biases[i] += Product(&gate.rows[i * width], guess.own_mean) -
                     Product(&out.rows[i * width], guess.earlier_mean);
  }
  return out;
}

}  // namespace thermocline::training
