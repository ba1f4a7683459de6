#include "synth/math.h"

#include <cmath>

#include "base/check.h"

namespace thermocline::synth {
namespace {

constexpr double kLn2 = 0.693147180559945309417;

double NormalDensity(double b) {
  return StableExp(-0.5 * b * b) / std::sqrt(2.0 * kPi);
}

// P(0 < Z < b) = density(b) * (b + b^3 / 3 + b^5 / 15 + ...)
double SeriesToMean(double b) {
  double term = b;
  double sum = b;
  for (int n = 1; n < 120; ++n) {
    term *= b * b / (2 * n + 1);
    sum += term;
    if (term < 1e-18 * sum) break;
  }
  return NormalDensity(b) * sum;
}

// P(Z > b) = density(b) / (b + 1 / (b + 2 / (b + 3 / ...))), for large b.
double FractionTail(double b) {
  double rest = b;
  for (int n = 60; n >= 1; --n) rest = b + n / rest;
  return NormalDensity(b) / rest;
}

}  // namespace

double StableExp(double x) {
  TC_CHECK(std::abs(x) <= 700.0);
  const double powers = std::floor(x / kLn2 + 0.5);
  const double rest = x - powers * kLn2;  // |rest| <= ln 2 / 2
  double term = 1.0;
  double sum = 1.0;
  for (int n = 1; n <= 16; ++n) {
    term *= rest / n;
    sum += term;
  }
  return std::ldexp(sum, static_cast<int>(powers));
}

double StableLog(double x) {
  TC_CHECK(x > 0.0);
  int exponent = 0;
  double fraction = std::frexp(x, &exponent);  // [0.5, 1)
  if (fraction < 0.70710678) {
    fraction *= 2.0;
    --exponent;
  }
  // log f = 2 atanh((f - 1) / (f + 1)), |t| <= 0.172
  const double t = (fraction - 1.0) / (fraction + 1.0);
  double power = t;
  double sum = 0.0;
  for (int n = 1; n <= 25; n += 2) {
    sum += power / n;
    power *= t * t;
  }
  return 2.0 * sum + exponent * kLn2;
}

double StableCos(double x) {
  TC_CHECK(std::abs(x) <= 1e4);
  const double turns = std::floor(x / (2.0 * kPi) + 0.5);
  const double rest = x - turns * 2.0 * kPi;  // [-pi, pi]
  double term = 1.0;
  double sum = 1.0;
  for (int n = 1; n <= 14; ++n) {
    term *= -rest * rest / ((2 * n - 1) * (2 * n));
    sum += term;
  }
  return sum;
}

double StableSin(double x) { return StableCos(x - 0.5 * kPi); }

double NormalTail(double b) {
  if (b < 0.0) return 1.0 - NormalTail(-b);
  return b < 3.0 ? 0.5 - SeriesToMean(b) : FractionTail(b);
}

double NormalThreshold(double p) {
  double low = -8.0;
  double high = 8.0;
  for (int i = 0; i < 46; ++i) {
    const double middle = 0.5 * (low + high);
    (NormalTail(middle) > p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double NormalJointTail(double b, double angle) {
  // Simpson's rule over the arcsine of the correlation, where the integrand is
  // smooth.
  constexpr int kIntervals = 64;
  const double step = angle / kIntervals;
  double sum = 0.0;
  for (int i = 0; i <= kIntervals; ++i) {
    const double value = StableExp(-b * b / (1.0 + StableSin(i * step)));
    const bool is_end = i == 0 || i == kIntervals;
    sum += value * (is_end ? 1.0 : i % 2 == 1 ? 4.0 : 2.0);
  }
  const double p = NormalTail(b);
  return p * p + sum * step / 3.0 / (2.0 * kPi);
}

}  // namespace thermocline::synth
