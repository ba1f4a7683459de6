// T rows of floats that somebody else owns.
#ifndef THERMOCLINE_COMPUTE_ROWS_H_
#define THERMOCLINE_COMPUTE_ROWS_H_

#include <cstddef>
#include <span>

namespace thermocline::compute {

// Row t is `width` floats at data + t * stride.
struct Rows {
  float* data = nullptr;
  size_t width = 0;
  size_t stride = 0;

  float* row(size_t token_idx) const { return data + token_idx * stride; }
  std::span<float> span(size_t token_idx) const {
    return {row(token_idx), width};
  }
  // Row token_idx and those behind it. No data: none either.
  Rows From(size_t token_idx) const {
    return data == nullptr ? *this : Rows{row(token_idx), width, stride};
  }
};

}  // namespace thermocline::compute

#endif  // THERMOCLINE_COMPUTE_ROWS_H_
