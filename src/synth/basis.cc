#include "synth/basis.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace thermocline::synth {
namespace {

// x = H x, H[i][j] = (-1)^popcount(i & j). Size a power of two.
void WalshTransform(std::span<float> x) {
  for (size_t half = 1; half < x.size(); half *= 2) {
    for (size_t i = 0; i < x.size(); i += 2 * half) {
      float* low = &x[i];
      float* high = &x[i + half];
      for (size_t k = 0; k < half; ++k) {
        const float a = low[k];
        const float b = high[k];
        low[k] = a + b;
        high[k] = a - b;
      }
    }
  }
}

int WalshSign(size_t row, size_t column) {
  return std::popcount(row & column) % 2 == 0 ? 1 : -1;
}

}  // namespace

SignBasis::SignBasis(size_t width, size_t count, uint64_t seed)
    : width_(width), count_(count) {
  TC_CHECK(width > 0 && width % 32 == 0 && count > 0);
  Random random(seed);
  for (size_t begin = 0; begin < width;) {
    Segment& segment = segments_.emplace_back();
    segment.begin = begin;
    segment.size = std::bit_floor(width - begin);
    // All rows but 0, whose sum is not 0, in random order, again and again.
    std::vector<uint32_t> order(segment.size - 1);
    std::iota(order.begin(), order.end(), 1u);
    for (size_t k = 0; k < count; ++k) {
      const size_t at = k % order.size();
      std::swap(order[at], order[at + random.Below(order.size() - at)]);
      segment.rows.push_back(order[at]);
      segment.negative.push_back(random.Next() % 2 == 1);
    }
    begin += segment.size;
  }
}

void SignBasis::Combine(std::span<const float> coefs,
                        std::span<float> out) const {
  TC_CHECK(coefs.size() == count_ && out.size() == width_);
  std::fill(out.begin(), out.end(), 0.0f);
  for (const Segment& segment : segments_) {
    const std::span part = out.subspan(segment.begin, segment.size);
    for (size_t k = 0; k < count_; ++k) {
      part[segment.rows[k]] += segment.negative[k] ? -coefs[k] : coefs[k];
    }
    WalshTransform(part);
  }
}

void SignBasis::Direction(size_t k, float factor, std::span<float> out) const {
  TC_CHECK(k < count_ && out.size() == width_);
  for (const Segment& segment : segments_) {
    const float positive = segment.negative[k] ? -factor : factor;
    for (size_t j = 0; j < segment.size; ++j) {
      out[segment.begin + j] =
          WalshSign(segment.rows[k], j) > 0 ? positive : -positive;
    }
  }
}

int SignBasis::Sign(size_t k, size_t j) const {
  TC_CHECK(k < count_ && j < width_);
  for (const Segment& segment : segments_) {
    if (j >= segment.begin + segment.size) continue;
    const int sign = WalshSign(segment.rows[k], j - segment.begin);
    return segment.negative[k] ? -sign : sign;
  }
  return 0;
}

}  // namespace thermocline::synth
