// A small seeded generator for tests, synthetic data and shuffles (SplitMix64,
// Steele, Lea and Flood 2014). Not for cryptography. The same seed gives the
// same numbers on every machine.
#ifndef THERMOCLINE_BASE_RANDOM_H_
#define THERMOCLINE_BASE_RANDOM_H_

#include <cstdint>

namespace thermocline {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, n). Requires n > 0. The bias, n / 2^64, is of no matter
  // here.
  uint64_t Below(uint64_t n) { return Next() % n; }

  // Uniform in [0, 1), 53 bits.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // Uniform in [low, high]: rounding to float gives `high` now and then.
  float Uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(Uniform());
  }

 private:
  uint64_t state_;
};

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_RANDOM_H_
