#include <algorithm>
#include <bit>

#include "kernels/ref/ref.h"

namespace thermocline::kernels::ref {

void PackSigns(const float* x, size_t n, uint64_t* words) {
  std::fill_n(words, (n + 63) / 64, 0);
  for (size_t i = 0; i < n; ++i) {
    words[i / 64] |= static_cast<uint64_t>(x[i] < 0.0f) << i % 64;
  }
}

void CountDifferences(const uint64_t* rows, size_t num_rows, const uint64_t* x,
                      size_t num_words, uint32_t* out) {
  for (size_t r = 0; r < num_rows; ++r) {
    out[r] = 0;
    for (size_t w = 0; w < num_words; ++w) {
      out[r] +=
          static_cast<uint32_t>(std::popcount(rows[r * num_words + w] ^ x[w]));
    }
  }
}

}  // namespace thermocline::kernels::ref
