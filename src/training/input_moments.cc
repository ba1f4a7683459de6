#include "training/input_moments.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace thermocline::training {

float UnitScale(const Samples& samples) {
  std::vector<float> x(samples.width);
  double sum = 0;
  for (size_t n = 0; n < samples.num_samples; ++n) {
    samples.LoadInput(n, x.data());
    sum += std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
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

}  // namespace thermocline::training
