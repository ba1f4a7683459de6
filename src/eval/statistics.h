// Means, shares and quantiles with their errors.
#ifndef THERMOCLINE_EVAL_STATISTICS_H_
#define THERMOCLINE_EVAL_STATISTICS_H_

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace thermocline::eval {

// The mean of a stream of numbers, and how far it may be off.
class Moments {
 public:
  void Add(double x);
  int64_t count() const { return count_; }
  double mean() const { return mean_; }  // 0 of nothing
  double mean_square() const;
  // Standard error of the mean, sqrt(sample variance / count); none below two
  // numbers, which tell nothing of it.
  std::optional<double> error() const;

 private:
  int64_t count_ = 0;
  double mean_ = 0.0;
  double sum_squared_deviations_ = 0.0;
};

struct MeanWithError {
  double value;
  std::optional<double> error;  // as of Moments
};

MeanWithError MeanOf(const Moments& moments);

// exp of the mean: the error carries over by the derivative.
MeanWithError ExpOf(const Moments& moments);

// `error` as `format` says; "-" for none.
std::string FormatError(const std::optional<double>& error,
                        fmt::format_string<const double&> format);

// How many of a total, as a share with the binomial standard error and the
// 95 % interval of Wilson's score, which holds near 0 and 1 too.
struct Share {
  int64_t count;
  int64_t total;
  double value;
  double error;
  double low, high;
};

// Requires 0 <= count <= total, total > 0 (CHECKed).
Share MakeShare(int64_t count, int64_t total);

// The value below which `fraction` of `sorted` lies, between two neighbours by
// straight line (as llama.cpp and NumPy do). Requires sorted, not empty
// (CHECKed), 0 <= fraction <= 1.
double Quantile(std::span<const double> sorted, double fraction);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_STATISTICS_H_
