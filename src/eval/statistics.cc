#include "eval/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace thermocline::eval {

void Moments::Add(double x) {
  // Welford's update: no difference of two large sums.
  ++count_;
  const double deviation = x - mean_;
  mean_ += deviation / static_cast<double>(count_);
  sum_squared_deviations_ += deviation * (x - mean_);
}

double Moments::mean_square() const {
  if (count_ == 0) return 0.0;
  return mean_ * mean_ + sum_squared_deviations_ / static_cast<double>(count_);
}

std::optional<double> Moments::error() const {
  if (count_ < 2) return std::nullopt;
  const double count = static_cast<double>(count_);
  return std::sqrt(sum_squared_deviations_ / (count * (count - 1.0)));
}

MeanWithError MeanOf(const Moments& moments) {
  return {.value = moments.mean(), .error = moments.error()};
}

MeanWithError ExpOf(const Moments& moments) {
  MeanWithError out = {.value = std::exp(moments.mean()),
                       .error = moments.error()};
  if (out.error.has_value()) *out.error *= out.value;
  return out;
}

std::string FormatError(const std::optional<double>& error,
                        fmt::format_string<const double&> format) {
  return error.has_value() ? fmt::format(format, *error) : "-";
}

Share MakeShare(int64_t count, int64_t total) {
  TC_CHECK(count >= 0 && count <= total && total > 0);
  constexpr double kZ = 1.959963984540054;  // 97.5 % of the normal distribution
  const double n = static_cast<double>(total);
  const double p = static_cast<double>(count) / n;
  const double shrink = 1.0 / (1.0 + kZ * kZ / n);
  const double centre = (p + kZ * kZ / (2.0 * n)) * shrink;
  const double half =
      kZ * std::sqrt(p * (1.0 - p) / n + kZ * kZ / (4.0 * n * n)) * shrink;
  return {.count = count,
          .total = total,
          .value = p,
          .error = std::sqrt(p * (1.0 - p) / n),
          // Rounding must not leave the share itself outside.
          .low = std::clamp(centre - half, 0.0, p),
          .high = std::clamp(centre + half, p, 1.0)};
}

double Quantile(std::span<const double> sorted, double fraction) {
  TC_CHECK(!sorted.empty());
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const size_t below = std::min(static_cast<size_t>(place), sorted.size() - 1);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

}  // namespace thermocline::eval
