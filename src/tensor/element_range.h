// How large numbers may be that a type stores.
#ifndef THERMOCLINE_TENSOR_ELEMENT_RANGE_H_
#define THERMOCLINE_TENSOR_ELEMENT_RANGE_H_

#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "tensor/dtype.h"

namespace thermocline {

// The largest magnitude that `dtype` holds. The next float would round to
// infinity, or may need a block scale beyond F16, which the codec would cut
// off. Requires a computable type.
float LargestIn(DType dtype);

// The first element that `dtype` does not hold: NaN, infinite or too large.
std::optional<size_t> FindUnstorable(DType dtype, std::span<const float> x);

// What to tell of such an element: "an element that is nan", or "an element
// 1e+06, too large for F16; choose BF16 or F32".
std::string DescribeUnstorable(DType dtype, float value);

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_ELEMENT_RANGE_H_
