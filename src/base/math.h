// Integer arithmetic that says when it overflows. Sizes that come from files
// go through these before anything is allocated or compared.
#ifndef THERMOCLINE_BASE_MATH_H_
#define THERMOCLINE_BASE_MATH_H_

#include <concepts>
#include <cstdint>
#include <optional>

namespace thermocline {

// a * b, or nullopt when it does not fit 64 bits.
constexpr std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// a + b, or nullopt when it does not fit 64 bits.
constexpr std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::unsigned_integral T>
constexpr T CeilDiv(T n, T divisor) {
  return n / divisor + (n % divisor != 0);
}

// The least multiple of `multiple` that is >= n. Requires no overflow.
template <std::unsigned_integral T>
constexpr T RoundUp(T n, T multiple) {
  return CeilDiv(n, multiple) * multiple;
}

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_MATH_H_
