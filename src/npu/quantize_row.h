// Rows of floats as small integers or F16.
#ifndef THERMOCLINE_NPU_QUANTIZE_ROW_H_
#define THERMOCLINE_NPU_QUANTIZE_ROW_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace thermocline::npu {

// How elements that share a scale are quantised: x is near
// (code - zero) * scale, the scale an F16.
struct RowScale {
  uint16_t scale = 0;
  uint8_t zero = 0;
};

// codes in -127 to 127. All of them: kInvalidArgument, an element that is not
// finite or beyond F16.
Result<RowScale> QuantizeI8(std::span<const float> x, int8_t* codes);
// codes in -8 to 7. The scale may be negative, since there is one code more
// below zero; it is the best of a few, which may cut off the largest elements.
Result<RowScale> QuantizeI4(std::span<const float> x, int8_t* codes);
// codes in 0 to `most`, 15 or 255, as bytes.
Result<RowScale> QuantizeWithZero(std::span<const float> x, int most,
                                  int8_t* codes);
// As F32ToF16, fast.
Status ToHalves(std::span<const float> x, uint16_t* halves);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_QUANTIZE_ROW_H_
