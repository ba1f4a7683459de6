// The weights of synthetic models as bytes: random ones, made as blocks at
// once, and rows of given values.
#ifndef THERMOCLINE_SYNTH_CODES_H_
#define THERMOCLINE_SYNTH_CODES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random.h"
#include "tensor/dtype.h"

namespace thermocline::synth {

// F32, F16, Q8_0, Q4_0, Q4_K, Q6_K: below, `dtype` is one of them. (CHECKed)
bool CanSynthesize(DType dtype);

// Random weights are value = step * (code - centre of the type's codes), with
// one step for a whole matrix: so a matrix and its transpose hold the same
// values, whichever way the blocks run.

// Codes that are uniform and symmetric about the centre; 4, 6 or 8 bits each.
void FillCodes(DType dtype, Random& random, std::span<uint8_t> codes);

// The deviation of a random weight for step 1.
double CodeDeviation(DType dtype);

// codes.size() is a multiple of the type's block. The step is rounded to F16
// where blocks have such a scale.
void EncodeCodes(DType dtype, float step, std::span<const uint8_t> codes,
                 std::byte* out);

// Values that mean something. As tensor/codec.h, but that Q4_0 is symmetric:
// the largest magnitude is 7 steps, so that x and -x become opposites.
void EncodeRow(DType dtype, std::span<const float> values, std::byte* out);

// For rows of +a and -a only: <stored, stored> / <given, given>. 1 where the
// type holds them exactly.
double SignGain(DType dtype);

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_CODES_H_
