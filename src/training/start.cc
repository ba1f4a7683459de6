#include "training/start.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "training/cholesky.h"

namespace thermocline::training {
namespace {

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

// Gate rows and biases divided by what the rows' products with the inputs
// deviate.
struct ScaledGate {
  GateRows gate;
  std::vector<float> deviation;  // [F]
};

ScaledGate Scale(const Gemm& gemm, GateRows gate, const InputMoments& moments) {
  ScaledGate out = {.gate = std::move(gate), .deviation = {}};
  out.deviation =
      VariancesOf(gemm, out.gate.rows, out.gate.biases.size(), moments);
  for (float& value : out.deviation) {
    value = value > 1e-20f ? std::sqrt(value) : 1.0f;
  }
  DivideRows(out.gate.rows, moments.mean.size(), out.deviation);
  DivideRows(out.gate.biases, 1, out.deviation);
  return out;
}

// The first `rank` of the linear forms [R, D] of the inputs that say most of
// the rows' products with them, hardly correlated, each with variance 1.
std::vector<float> MainForms(const Gemm& gemm, const std::vector<float>& rows,
                             const InputMoments& moments, size_t rank,
                             uint64_t seed) {
  const size_t width = moments.mean.size();
  const size_t num_rows = rows.size() / width;
  const size_t n = std::min(rank + kOversampling, std::min(width, num_rows));
  TC_CHECK(rank > 0 && rank <= n);
  const std::vector<float> q = MainDirections(gemm, rows, moments, n, seed);
  std::vector<float> forms(n * width);
  gemm.Multiply({q.data(), n, Op::kTransposed}, {rows.data(), width}, n, width,
                num_rows, 0.0f, forms.data(), width);
  forms.resize(rank * width);
  std::vector<float> spread = VariancesOf(gemm, forms, rank, moments);
  // Directions next to which the first is a million times stronger are
  // rounding.
  const float least = 1e-12f * std::max(spread[0], 1e-8f);
  for (float& value : spread) value = value > least ? std::sqrt(value) : 1e18f;
  DivideRows(forms, width, spread);
  return forms;
}

// [R, D], whose product with a gate row is what to take of each form [R, D] to
// come nearest to the row's product with the inputs: the inverse of the forms'
// covariances times those of forms and inputs.
std::vector<float> Regression(const Gemm& gemm, const std::vector<float>& forms,
                              const InputMoments& moments, size_t rank) {
  const size_t width = moments.mean.size();
  std::vector<float> out(rank * width);
  gemm.Multiply({forms.data(), width}, {moments.covariance.data(), width}, rank,
                width, width, 0.0f, out.data(), width);
  std::vector<float> gram(rank * rank);
  gemm.Multiply({out.data(), width}, {forms.data(), width, Op::kTransposed},
                rank, rank, width, 0.0f, gram.data(), rank);
  std::vector<double> triangle(gram.begin(), gram.end());
  // Forms that say nearly the same would be believed beyond measure.
  for (size_t r = 0; r < rank; ++r) triangle[r * rank + r] *= 1.0 + 1e-6;
  Cholesky(triangle, rank);
  SolveByTriangle(gemm, triangle, rank, out, width);
  return out;
}

// What the forms say of the gates, expert by expert.
class Projection {
 public:
  Projection(const Gemm& gemm, const InputMoments& moments, GateImage& image)
      : gemm_(gemm),
        moments_(moments),
        image_(image),
        width_(moments.mean.size()),
        regression_(Regression(gemm, image.up, moments, image.rank)),
        at_mean_(image.rank) {
    for (size_t r = 0; r < image.rank; ++r) {
      at_mean_[r] = Dot(&image.up[r * width_], moments.mean.data(), width_);
    }
  }

  // Of an expert whose neurons begin at `first`.
  void Add(const ScaledGate& scaled, size_t first) {
    const size_t rank = image_.rank;
    const size_t count = scaled.deviation.size();
    float* down = &image_.down[first * rank];
    gemm_.Multiply({scaled.gate.rows.data(), width_},
                   {regression_.data(), width_, Op::kTransposed}, count, rank,
                   width_, 0.0f, down, rank);
    for (size_t i = 0; i < count; ++i) {
      image_.deviation[first + i] = scaled.deviation[i];
      // What the directions that are left out have at the mean stays.
      image_.bias[first + i] =
          scaled.gate.biases[i] +
          Dot(&scaled.gate.rows[i * width_], moments_.mean.data(), width_) -
          Dot(&down[i * rank], at_mean_.data(), rank);
    }
  }

 private:
  const Gemm& gemm_;
  const InputMoments& moments_;
  GateImage& image_;
  size_t width_;
  std::vector<float> regression_;  // [R, D]
  std::vector<float> at_mean_;     // [R]
};

}  // namespace

GateImage FitImage(const Gemm& gemm, const Gate& gate, size_t num_neurons,
                   const InputMoments& moments, size_t rank, uint64_t seed) {
  const size_t width = moments.mean.size();
  GateImage image = {.rank = rank,
                     .up = {},
                     .down = std::vector<float>(num_neurons * rank),
                     .bias = std::vector<float>(num_neurons),
                     .deviation = std::vector<float>(num_neurons)};
  // As many rows as an FFN has, evenly from all experts, stand for the layer
  // where only directions are looked for.
  const size_t ffn_width = num_neurons / gate.num_experts;
  std::vector<float> drawn;
  drawn.reserve(ffn_width * width);
  ScaledGate scaled;
  for (size_t e = 0; e < gate.num_experts; ++e) {
    scaled = Scale(gemm, gate.read(e), moments);
    for (size_t i = e; i < scaled.deviation.size(); i += gate.num_experts) {
      const auto row = std::span(scaled.gate.rows).subspan(i * width, width);
      drawn.insert(drawn.end(), row.begin(), row.end());
    }
  }
  image.up = MainForms(gemm, drawn, moments, rank, seed);
  Projection projection(gemm, moments, image);
  // The last one's rows are still at hand.
  for (size_t e = gate.num_experts; e-- > 0;) {
    if (e + 1 < gate.num_experts) {
      scaled = Scale(gemm, gate.read(e), moments);
    }
    projection.Add(scaled, e * ffn_width);
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
