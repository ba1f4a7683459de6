#include "tensor/element_range.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/check.h"

namespace thermocline {

float LargestIn(DType dtype) {
  constexpr float kLargestScale = 65504.0f;
  switch (dtype) {
    case DType::kF16:
      return 0x1.ffdffep15f;  // below 65520, which is halfway to 2^16
    case DType::kBF16:
      return 0x1.fefffep127f;  // likewise, halfway to 2^128
    case DType::kQ8_0:
      return 127.0f * kLargestScale;
    case DType::kQ4_0:
      return 8.0f * kLargestScale;
    case DType::kQ5_0:
      return 16.0f * kLargestScale;
    case DType::kQ4_1:
    case DType::kQ5_1:
      return kLargestScale;  // of the minimum
    case DType::kQ4_K:
    case DType::kQ5_K:
      return 63.0f * kLargestScale;  // likewise
    case DType::kQ6_K:
      return 32.0f * 128.0f * kLargestScale;
    default:
      TC_CHECK(dtype == DType::kF32);
      return std::numeric_limits<float>::max();
  }
}

std::optional<size_t> FindUnstorable(DType dtype, std::span<const float> x) {
  const float largest = LargestIn(dtype);
  bool all_fit = true;  // without a branch: nearly always it stays true
  for (const float value : x) all_fit &= std::fabs(value) <= largest;
  if (all_fit) return std::nullopt;
  size_t i = 0;
  while (std::fabs(x[i]) <= largest) ++i;
  return i;
}

std::string DescribeUnstorable(DType dtype, float value) {
  if (!std::isfinite(value)) {
    return fmt::format("an element that is {}", value);
  }
  return fmt::format(
      "an element {}, too large for {}; choose {}", value, NameOf(dtype),
      std::fabs(value) <= LargestIn(DType::kBF16) ? "BF16 or F32" : "F32");
}

}  // namespace thermocline
