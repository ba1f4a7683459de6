// T rows of floats that somebody else owns.
#ifndef THERMOCLINE_ENGINE_ROWS_H_
#define THERMOCLINE_ENGINE_ROWS_H_

#include <cstddef>
#include <span>

namespace thermocline::engine {

// Row t is `width` floats at data + t * stride.
struct Rows {
  float* data = nullptr;
  size_t width = 0;
  size_t stride = 0;

  float* row(size_t token_idx) const { return data + token_idx * stride; }
  std::span<float> span(size_t token_idx) const {
    return {row(token_idx), width};
  }
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ROWS_H_
