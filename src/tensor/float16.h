// Conversions between F32 and the two 16-bit float formats; scalar reference.
#ifndef THERMOCLINE_TENSOR_FLOAT16_H_
#define THERMOCLINE_TENSOR_FLOAT16_H_

#include <cstdint>

namespace thermocline {

// IEEE binary16, exact, subnormals, infinities and NaN included.
float F16ToF32(uint16_t half);

// The largest finite one.
inline constexpr float kMaxF16 = 65504.0f;

// Round to nearest, ties to even; overflow gives infinity; NaN stays NaN.
uint16_t F32ToF16(float value);

// BF16 is the upper half of an F32; exact.
float BF16ToF32(uint16_t bf16);

// Round to nearest, ties to even; NaN stays NaN (made quiet).
uint16_t F32ToBF16(float value);

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_FLOAT16_H_
