#include "training/start.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/random.h"
#include "tensor/codec.h"

namespace thermocline::training {
namespace {

constexpr size_t kMomentBatch = 512;  // samples
constexpr size_t kGateGrain = 32;
constexpr int kNumIterations = 8;
// Columns of the subspace beyond those that are asked for: the last directions
// settle too.
constexpr size_t kOversampling = 16;
// How far the ReLU is lifted, in deviations of its input.
constexpr float kLift = 4.0f;

// Divides row i of values [num_rows, width] by divisors[i].
void DivideRows(std::vector<float>& values, size_t width,
                const std::vector<float>& divisors) {
  for (size_t row = 0; row < divisors.size(); ++row) {
    const float factor = 1.0f / divisors[row];
    for (size_t i = 0; i < width; ++i) values[row * width + i] *= factor;
  }
}

float Dot(const float* a, const float* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += double{a[i]} * b[i];
  return static_cast<float>(sum);
}

// The lower triangle L of gram [n, n] = L L^T, in its place. A column without
// anything of its own becomes a unit vector of size 1e18: what is divided by it
// vanishes.
void Cholesky(std::vector<double>& gram, size_t n) {
  for (size_t j = 0; j < n; ++j) {
    double* row = &gram[j * n];
    const double own = row[j];
    for (size_t k = 0; k < j; ++k) row[j] -= row[k] * row[k];
    const bool is_empty = !(row[j] > 1e-9 * own) || !(own > 1e-30);
    row[j] = is_empty ? 1e18 : std::sqrt(row[j]);
    for (size_t i = j + 1; i < n; ++i) {
      double* other = &gram[i * n];
      for (size_t k = 0; k < j; ++k) other[j] -= other[k] * row[k];
      other[j] = is_empty ? 0.0 : other[j] / row[j];
    }
  }
}

// Makes the columns of q [num_rows, n] orthonormal, in their order.
void Orthonormalize(const Gemm& gemm, std::vector<float>& q, size_t num_rows,
                    size_t n) {
  std::vector<float> gram(n * n);
  gemm.Multiply({q.data(), n, Op::kTransposed}, {q.data(), n}, n, n, num_rows,
                0.0f, gram.data(), n);
  std::vector<double> triangle(gram.begin(), gram.end());
  Cholesky(triangle, n);
  std::ranges::transform(triangle, gram.begin(), [](double value) {
    return static_cast<float>(value);
  });
  gemm.pool().ParallelFor(
      num_rows, kGateGrain, [&](size_t begin, size_t end, int) {
        gemm.blas().strsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans,
                          CblasNonUnit, static_cast<blasint>(end - begin),
                          static_cast<blasint>(n), 1.0f, gram.data(),
                          static_cast<blasint>(n), q.data() + begin * n,
                          static_cast<blasint>(n));
      });
}

// rows_i C rows_i^T, for each row.
std::vector<float> VariancesOf(const Gemm& gemm, const std::vector<float>& rows,
                               size_t num_rows, const InputMoments& moments) {
  const size_t width = moments.mean.size();
  std::vector<float> product(num_rows * width);
  gemm.Multiply({rows.data(), width}, {moments.covariance.data(), width},
                num_rows, width, width, 0.0f, product.data(), width);
  std::vector<float> variances(num_rows);
  for (size_t i = 0; i < num_rows; ++i) {
    variances[i] = Dot(&product[i * width], &rows[i * width], width);
  }
  return variances;
}

// An orthonormal basis [F, n] of the main directions of gate C gate^T.
std::vector<float> MainDirections(const Gemm& gemm,
                                  const std::vector<float>& gate,
                                  const InputMoments& moments, size_t n,
                                  uint64_t seed) {
  const size_t width = moments.mean.size();
  const size_t num_neurons = gate.size() / width;
  std::vector<float> q(num_neurons * n);
  Random random(seed);
  for (float& value : q) value = random.Uniform(-1, 1);
  std::vector<float> back(width * n);
  std::vector<float> spread(width * n);
  for (int i = 0; i < kNumIterations; ++i) {
    Orthonormalize(gemm, q, num_neurons, n);
    gemm.Multiply({gate.data(), width, Op::kTransposed}, {q.data(), n}, width,
                  n, num_neurons, 0.0f, back.data(), n);
    gemm.Multiply({moments.covariance.data(), width}, {back.data(), n}, width,
                  n, width, 0.0f, spread.data(), n);
    gemm.Multiply({gate.data(), width}, {spread.data(), n}, num_neurons, n,
                  width, 0.0f, q.data(), n);
  }
  // Twice: the first time in floats leaves the columns a little oblique.
  Orthonormalize(gemm, q, num_neurons, n);
  Orthonormalize(gemm, q, num_neurons, n);
  return q;
}

}  // namespace

float UnitScale(const Samples& samples) {
  std::vector<float> x(samples.width);
  double sum = 0;
  for (size_t n = 0; n < samples.num_samples; ++n) {
    samples.LoadInput(n, x.data());
    sum += double{Dot(x.data(), x.data(), x.size())};
  }
  const double count = static_cast<double>(samples.num_samples) *
                       static_cast<double>(samples.width);
  return sum > 0 ? samples.input_scale *
                       static_cast<float>(1.0 / std::sqrt(sum / count))
                 : samples.input_scale;
}

InputMoments ComputeMoments(const Gemm& gemm, const Samples& samples) {
  TC_CHECK(samples.num_samples > 0);
  const size_t width = samples.width;
  InputMoments moments = {.mean = std::vector<float>(width),
                          .covariance = std::vector<float>(width * width)};
  std::vector<double> sums(width);
  std::vector<float> x(std::min(kMomentBatch, samples.num_samples) * width);
  for (size_t begin = 0; begin < samples.num_samples; begin += kMomentBatch) {
    const size_t count = std::min(kMomentBatch, samples.num_samples - begin);
    for (size_t n = 0; n < count; ++n) {
      samples.LoadInput(begin + n, &x[n * width]);
      for (size_t i = 0; i < width; ++i) sums[i] += double{x[n * width + i]};
    }
    gemm.Multiply({x.data(), width, Op::kTransposed}, {x.data(), width}, width,
                  width, count, 1.0f, moments.covariance.data(), width);
  }
  const double factor = 1.0 / static_cast<double>(samples.num_samples);
  for (size_t i = 0; i < width; ++i) {
    moments.mean[i] = static_cast<float>(sums[i] * factor);
  }
  for (size_t i = 0; i < width; ++i) {
    for (size_t j = 0; j < width; ++j) {
      float& value = moments.covariance[i * width + j];
      value = static_cast<float>(double{value} * factor -
                                 double{moments.mean[i]} * moments.mean[j]);
    }
  }
  return moments;
}

GateRows ReadGate(const Gemm& gemm, std::span<const TensorView> gates,
                  const TensorView& bias, float input_scale) {
  const size_t width = gates.front().shape.ne[0];
  const size_t num_rows = gates.front().shape.num_rows();
  GateRows out = {.rows = std::vector<float>(gates.size() * num_rows * width),
                  .biases = std::vector<float>(gates.size() * num_rows)};
  gemm.pool().ParallelFor(
      gates.size() * num_rows, kGateGrain, [&](size_t begin, size_t end, int) {
        for (size_t i = begin; i < end; ++i) {
          const TensorView& gate = gates[i / num_rows];
          const std::span row(&out.rows[i * width], width);
          DequantizeRow(gate.dtype, gate.row(i % num_rows), row);
          for (float& value : row) value /= input_scale;
        }
      });
  for (size_t e = 0; bias && e < gates.size(); ++e) {
    std::memcpy(&out.biases[e * num_rows], bias.data, num_rows * sizeof(float));
  }
  return out;
}

namespace {

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
  std::vector<float> lower(triangle.begin(), triangle.end());
  const auto n = static_cast<blasint>(width);
  for (const CBLAS_TRANSPOSE order : {CblasNoTrans, CblasTrans}) {
    gemm.blas().strsm(CblasRowMajor, CblasLeft, CblasLower, order, CblasNonUnit,
                      n, n, 1.0f, lower.data(), n, right.data(), n);
  }
}

}  // namespace

GateRows LookAhead(const Gemm& gemm, const GateRows& gate,
                   const Samples& earlier, const Samples& own) {
  TC_CHECK(earlier.num_samples == own.num_samples);
  const size_t width = own.width;
  const size_t num_neurons = gate.biases.size();
  const InputMoments from = ComputeMoments(gemm, earlier);
  const InputMoments to = ComputeMoments(gemm, own);
  // map^T: own - mean is about map (earlier - mean).
  std::vector<float> map =
      CrossCovariance(gemm, earlier, from.mean, own, to.mean);
  SolveWith(gemm, from.covariance, width, map);
  GateRows out = {.rows = std::vector<float>(num_neurons * width),
                  .biases = gate.biases};
  gemm.Multiply({gate.rows.data(), width}, {map.data(), width, Op::kTransposed},
                num_neurons, width, width, 0.0f, out.rows.data(), width);
  for (size_t i = 0; i < num_neurons; ++i) {
    out.biases[i] += Dot(&gate.rows[i * width], to.mean.data(), width) -
                     Dot(&out.rows[i * width], from.mean.data(), width);
  }
  return out;
}

GateImage FitImage(const Gemm& gemm, const GateRows& gate,
                   const InputMoments& moments, size_t rank, uint64_t seed) {
  const size_t width = moments.mean.size();
  const size_t num_neurons = gate.biases.size();
  TC_CHECK(rank > 0 && rank <= std::min(width, num_neurons));
  GateImage image;
  image.rank = rank;
  image.deviation = VariancesOf(gemm, gate.rows, num_neurons, moments);
  for (float& value : image.deviation) {
    value = value > 1e-20f ? std::sqrt(value) : 1.0f;
  }
  std::vector<float> rows = gate.rows;
  DivideRows(rows, width, image.deviation);
  image.bias.resize(num_neurons);
  for (size_t i = 0; i < num_neurons; ++i) {
    image.bias[i] = gate.biases[i] / image.deviation[i];
  }

  const size_t n = std::min(rank + kOversampling, std::min(width, num_neurons));
  const std::vector<float> q = MainDirections(gemm, rows, moments, n, seed);
  std::vector<float> up(n * width);
  gemm.Multiply({q.data(), n, Op::kTransposed}, {rows.data(), width}, n, width,
                num_neurons, 0.0f, up.data(), width);
  up.resize(rank * width);
  std::vector<float> spread = VariancesOf(gemm, up, rank, moments);
  // Directions next to which the first is a million times stronger are
  // rounding.
  const float least = 1e-12f * std::max(spread[0], 1e-8f);
  for (float& value : spread) value = value > least ? std::sqrt(value) : 1e18f;
  image.up = std::move(up);
  DivideRows(image.up, width, spread);
  image.down.resize(num_neurons * rank);
  for (size_t i = 0; i < num_neurons; ++i) {
    for (size_t r = 0; r < rank; ++r) {
      image.down[i * rank + r] =
          spread[r] < 1e17f ? q[i * n + r] * spread[r] : 0.0f;
    }
    // What the directions that are left out have at the mean stays.
    const float at_mean = Dot(&rows[i * width], moments.mean.data(), width);
    image.bias[i] += at_mean;
  }
  for (size_t r = 0; r < rank; ++r) {
    const float at_mean = Dot(&image.up[r * width], moments.mean.data(), width);
    for (size_t i = 0; i < num_neurons; ++i) {
      image.bias[i] -= image.down[i * rank + r] * at_mean;
    }
  }
  return image;
}

LowRank StartFrom(const GateImage& image, const InputMoments& moments,
                  size_t rank) {
  const size_t width = moments.mean.size();
  const size_t num_neurons = image.bias.size();
  TC_CHECK(rank > 0 && rank <= image.rank);
  LowRank out = LowRank::Zeros(width, rank, num_neurons);
  std::copy_n(image.up.begin(), rank * width, out.up.begin());
  std::vector<float> at_mean(image.rank);
  for (size_t r = 0; r < image.rank; ++r) {
    at_mean[r] = Dot(&image.up[r * width], moments.mean.data(), width);
    if (r < rank) out.up_bias[r] = kLift - at_mean[r];
  }
  for (size_t i = 0; i < num_neurons; ++i) {
    const float* from = &image.down[i * image.rank];
    // The logistic function with this slope is the chance that a margin holds
    // against a normal error of what the image leaves out.
    const float left_out =
        std::sqrt(std::max(1.0f - Dot(from, from, rank), 0.02f));
    const float slope = 1.7f / left_out;
    double bias = double{image.bias[i]};
    for (size_t r = 0; r < image.rank; ++r) {
      if (r < rank) {
        out.down[i * rank + r] = slope * from[r];
        bias -= double{from[r]} * out.up_bias[r];
      } else {
        // A direction that is left out keeps its value at the mean.
        bias += double{from[r]} * at_mean[r];
      }
    }
    out.down_bias[i] = slope * static_cast<float>(bias);
  }
  return out;
}

}  // namespace thermocline::training
