#include "npu/quantize_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tensor/float16.h"

namespace thermocline::npu {
namespace {

// Sums and extremes have this many parts, so that compilers may take several
// elements at once without a change of order.
constexpr size_t kLanes = 8;

// body(i, lane) for all i below n.
template <typename Body>
inline void OverLanes(size_t n, const Body& body) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) body(i + lane, lane);
  }
  for (size_t lane = 0; i < n; ++i, ++lane) body(i, lane);
}

float LowerOf(float a, float b) { return a < b ? a : b; }
float HigherOf(float a, float b) { return a > b ? a : b; }

constexpr uint32_t kMagnitude = 0x7fffffffu;

auto NotStorable() {
  return Fail(ErrorCode::kInvalidArgument,
              "an element is not finite, or larger than F16 can hold ({:.0f})",
              kMaxF16);
}

// As integers magnitudes order like the values, NaN above all.
Status CheckStorable(std::span<const float> x) {
  std::array<int32_t, kLanes> most = {};
  OverLanes(x.size(), [&](size_t i, size_t lane) {
    const auto bits =
        static_cast<int32_t>(std::bit_cast<uint32_t>(x[i]) & kMagnitude);
    most[lane] = most[lane] > bits ? most[lane] : bits;
  });
  if (*std::ranges::max_element(most) > std::bit_cast<int32_t>(kMaxF16)) {
    return NotStorable();
  }
  return {};
}

struct Extremes {
  float low = 0.0f;   // at most 0
  float high = 0.0f;  // at least 0
  float largest() const { return -low >= high ? low : high; }
};

Extremes ExtremesOf(std::span<const float> x) {
  std::array<float, kLanes> low = {};
  std::array<float, kLanes> high = {};
  OverLanes(x.size(), [&](size_t i, size_t lane) {
    low[lane] = LowerOf(low[lane], x[i]);
    high[lane] = HigherOf(high[lane], x[i]);
  });
  return {*std::ranges::min_element(low), *std::ranges::max_element(high)};
}

// To the nearest, for |x| below 2^22.
float RoundSmall(float x) {
  constexpr float kShift = 0x1.8p23f;
  return (x + kShift) - kShift;
}

// Codes of a scale, between `least` and `most`.
struct Grid {
  explicit Grid(float wanted, float least_code, float most_code)
      : half(F32ToF16(wanted)),
        scale(F16ToF32(half)),
        inverse(scale == 0.0f ? 0.0f : 1.0f / scale),
        least(least_code),
        most(most_code) {}

  float CodeOf(float x) const {
    return RoundSmall(LowerOf(HigherOf(x * inverse, least), most));
  }

  uint16_t half;
  float scale;
  float inverse;
  float least;
  float most;
};

float SquaredError(std::span<const float> x, const Grid& grid) {
  std::array<float, kLanes> sums = {};
  OverLanes(x.size(), [&](size_t i, size_t lane) {
    const float error = x[i] - grid.CodeOf(x[i]) * grid.scale;
    sums[lane] += error * error;
  });
  float sum = 0.0f;
  for (const float lane : sums) sum += lane;
  return sum;
}

void WriteCodes(std::span<const float> x, const Grid& grid, float offset,
                int8_t* codes) {
  for (size_t i = 0; i < x.size(); ++i) {
    const auto code = static_cast<int32_t>(grid.CodeOf(x[i]) + offset);
    codes[i] = static_cast<int8_t>(static_cast<uint8_t>(code));
  }
}

}  // namespace

Result<RowScale> QuantizeI8(std::span<const float> x, int8_t* codes) {
  TC_RETURN_IF_ERROR(CheckStorable(x));
  const float largest = std::abs(ExtremesOf(x).largest());
  const Grid grid(largest / 127.0f, -127.0f, 127.0f);
  WriteCodes(x, grid, 0.0f, codes);
  return RowScale{.scale = grid.half};
}

Result<RowScale> QuantizeI4(std::span<const float> x, int8_t* codes) {
  TC_RETURN_IF_ERROR(CheckStorable(x));
  const float widest = 0.0f - ExtremesOf(x).largest() / 8.0f;  // never -0
  // Of 128 elements the best is mostly the first or second, of a row of
  // thousands the third or fourth.
  constexpr std::array<float, 5> kShares = {1.0f, 0.91f, 0.82f, 0.74f, 0.66f};
  Grid best(widest, -8.0f, 7.0f);
  float least_error = SquaredError(x, best);
  for (const float share : std::span(kShares).subspan(1)) {
    const Grid grid(widest * share, -8.0f, 7.0f);
    const float error = SquaredError(x, grid);
    if (error >= least_error) continue;
    least_error = error;
    best = grid;
  }
  WriteCodes(x, best, 0.0f, codes);
  return RowScale{.scale = best.half};
}

Result<RowScale> QuantizeWithZero(std::span<const float> x, int most,
                                  int8_t* codes) {
  TC_RETURN_IF_ERROR(CheckStorable(x));
  const Extremes extremes = ExtremesOf(x);
  const auto last = static_cast<float>(most);
  const float wanted = (extremes.high - extremes.low) / last;
  const Grid whole(wanted, 0.0f, last);
  const float zero = whole.CodeOf(-extremes.low);
  WriteCodes(x, Grid(wanted, -zero, last - zero), zero, codes);
  return RowScale{.scale = whole.half, .zero = static_cast<uint8_t>(zero)};
}

Status ToHalves(std::span<const float> x, uint16_t* halves) {
  TC_RETURN_IF_ERROR(CheckStorable(x));
  constexpr uint32_t kMinNormal = 0x38800000u;     // 2^-14
  constexpr uint32_t kExponentShift = 112u << 23;  // 127 - 15
  const auto half_bits = std::bit_cast<uint32_t>(0.5f);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(x[i]);
    const uint32_t magnitude = bits & kMagnitude;
    // As in F32ToF16, with both cases computed.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    const uint32_t small = std::bit_cast<uint32_t>(sum) - half_bits;
    const uint32_t normal =
        (magnitude + 0xfffu + (magnitude >> 13 & 1u) - kExponentShift) >> 13;
    const uint32_t half = magnitude < kMinNormal ? small : normal;
    halves[i] = static_cast<uint16_t>((bits & ~kMagnitude) >> 16 | half);
  }
  return {};
}

}  // namespace thermocline::npu
