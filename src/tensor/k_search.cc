#include "tensor/k_search.h"

#include <algorithm>
#include <cmath>

#include "tensor/block_codec.h"

namespace thermocline {
namespace {

// Four sub-blocks are searched side by side, one in each lane: every number of
// the search is then a vector, and no sum has to be added up across.
constexpr int kNumLanes = 4;
using Lanes = float __attribute__((vector_size(kNumLanes * sizeof(float))));

constexpr Lanes Splat(float x) { return Lanes{x, x, x, x}; }
constexpr Lanes kZero = Splat(0.0f);
constexpr Lanes kUnreached = Splat(-INFINITY);  // a gain

// RoundInto for lanes; NaN gives low.
Lanes Round(Lanes value, Lanes low, Lanes high) {
  constexpr Lanes kNoFraction = Splat(12582912.0f);
  value = value > low ? value : low;
  value = value < high ? value : high;
  return (value + kNoFraction) - kNoFraction;
}

Lanes Magnitude(Lanes value) { return value < kZero ? -value : value; }

Lanes Reciprocals(Lanes values) {
  Lanes result;
  for (int i = 0; i < kNumLanes; ++i) result[i] = Reciprocal(values[i]);
  return result;
}

// Four consecutive sub-blocks of kNum numbers: x[e] has the e-th of each.
template <int kNum>
void LoadLanes(const float* src, Lanes x[kNum]) {
  for (int e = 0; e < kNum; ++e) {
    x[e] = Lanes{src[e], src[kNum + e], src[2 * kNum + e], src[3 * kNum + e]};
  }
}

// ---- x ~ scale * level - offset ----

constexpr int kNumGroups = kSuperBlock / kSub / kNumLanes;
constexpr float kMaxScale = 63;  // largest six-bit scale
// The tries span the range with max_level - 2 to max_level + 1 steps: fewer
// cut off the ends, more leave out a level.
constexpr float kFirstTry = -2.0f;
constexpr float kTryStep = 0.2f;
constexpr int kNumTries = 16;
// How far around the rounded scale and minimum better ones are looked for.
// Farther gains little more: 3 takes half as long again for 0.2 % less error.
constexpr int kReach = 2;

// Four sub-blocks and what each of their numbers counts.
struct AffineGroup {
  Lanes x[kSub];
  Lanes weight[kSub];
  Lanes sum_w = kZero;
  Lanes sum_wx = kZero;

  explicit AffineGroup(const float* src) {
    LoadLanes<kSub>(src, x);
    Lanes sum_squares = kZero;
    for (const Lanes& value : x) sum_squares += value * value;
    Lanes floor;
    for (int i = 0; i < kNumLanes; ++i) {
      floor[i] = std::sqrt(sum_squares[i] / kSub);
    }
    for (int e = 0; e < kSub; ++e) {
      weight[e] = floor + Magnitude(x[e]);
      sum_w += weight[e];
      sum_wx += weight[e] * x[e];
    }
  }
};

// x ~ step * level - offset with step, offset >= 0.
struct Affine {
  Lanes step;
  Lanes offset;
};

// Sums over the numbers of a sub-block with their levels q.
struct LevelSums {
  Lanes wq = kZero;
  Lanes wqq = kZero;
  Lanes wxq = kZero;
};

// The weighted least-squares fit for given levels, the offset held at >= 0,
// if it removes more error than `best` did.
void KeepBetterFit(const AffineGroup& group, const LevelSums& sums,
                   Lanes& best_gain, Affine& best) {
  const Lanes determinant = group.sum_w * sums.wqq - sums.wq * sums.wq;
  const Lanes free_offset =
      (sums.wq * sums.wxq - sums.wqq * group.sum_wx) / determinant;
  const Lanes free_step =
      (group.sum_w * sums.wxq - group.sum_wx * sums.wq) / determinant;
  const Lanes offset = free_offset < kZero ? kZero : free_offset;
  const Lanes step = free_offset < kZero ? sums.wxq / sums.wqq : free_step;
  // At a minimum the error is sum w x^2 less this.
  const Lanes gain = step * sums.wxq - offset * group.sum_wx;
  const auto better = (determinant > kZero) & (gain > best_gain);
  best_gain = better ? gain : best_gain;
  best.step = better ? step : best.step;
  best.offset = better ? offset : best.offset;
}

// The best real step and offset of each sub-block: every try rounds to a grid,
// refits the grid to what was rounded, and is judged by the weighted error.
Affine SearchAffine(const AffineGroup& group, Lanes max_level) {
  Lanes low = kZero;  // the offset cannot raise the grid above zero
  Lanes high = group.x[0];
  for (const Lanes& x : group.x) {
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  // Where all numbers are equal and below zero there is no step, only a
  // minimum: all levels are 0, and no fit is found.
  const Lanes inverse_range = Reciprocals(high - low);
  Affine best = {kZero, -low};
  Lanes best_gain = kUnreached;
  for (int i = 0; i < kNumTries; ++i) {
    const float shift = kFirstTry + kTryStep * static_cast<float>(i);
    const Lanes inverse = (max_level + shift) * inverse_range;
    LevelSums sums;
    for (int e = 0; e < kSub; ++e) {
      const Lanes q = Round(inverse * (group.x[e] - low), kZero, max_level);
      const Lanes wq = group.weight[e] * q;
      sums.wq += wq;
      sums.wqq += wq * q;
      sums.wxq += wq * group.x[e];
    }
    KeepBetterFit(group, sums, best_gain, best);
  }
  return best;
}

Lanes WeightedError(const AffineGroup& group, const Affine& fit, Lanes inverse,
                    Lanes max_level) {
  Lanes error = kZero;
  for (int e = 0; e < kSub; ++e) {
    const Lanes lifted = group.x[e] + fit.offset;
    const Lanes q = Round(lifted * inverse, kZero, max_level);
    const Lanes diff = fit.step * q - lifted;
    error += group.weight[e] * diff * diff;
  }
  return error;
}

struct IntegerFit {
  Lanes scale;
  Lanes min;
};

// The best pair of stored integers near a fit, judged by what they decode to.
IntegerFit SearchIntegers(const AffineGroup& group, const Affine& fit, float d,
                          float dmin, Lanes max_level) {
  constexpr Lanes kMax = Splat(kMaxScale);
  const Lanes mid_scale = Round(fit.step * Reciprocal(d), kZero, kMax);
  const Lanes mid_min = Round(fit.offset * Reciprocal(dmin), kZero, kMax);
  IntegerFit best = {mid_scale, mid_min};
  Lanes best_error = -kUnreached;
  for (int i = -kReach; i <= kReach; ++i) {
    const Lanes scale = Round(mid_scale + static_cast<float>(i), kZero, kMax);
    const Lanes step = d * scale;
    const Lanes inverse = Reciprocals(step);
    for (int j = -kReach; j <= kReach; ++j) {
      const Lanes min = Round(mid_min + static_cast<float>(j), kZero, kMax);
      const Lanes error =
          WeightedError(group, {step, dmin * min}, inverse, max_level);
      const auto better = error < best_error;
      best_error = better ? error : best_error;
      best.scale = better ? scale : best.scale;
      best.min = better ? min : best.min;
    }
  }
  return best;
}

// ---- x ~ scale * (level - 32) ----

constexpr int kNumGroups6 = kSuperBlock / kSub6 / kNumLanes;
constexpr int kReach6 = 4;
constexpr Lanes kLow6 = Splat(-32.0f);
constexpr Lanes kHigh6 = Splat(31.0f);

struct SymmetricGroup {
  Lanes x[kSub6];
  Lanes weight[kSub6];  // x^2

  explicit SymmetricGroup(const float* src) {
    LoadLanes<kSub6>(src, x);
    for (int e = 0; e < kSub6; ++e) weight[e] = x[e] * x[e];
  }
};

// The real steps, of either sign, that fit x ~ step * q best, q in [-32, 31].
Lanes SearchSteps(const SymmetricGroup& group, const float* src) {
  Lanes inverse_peak;
  for (int i = 0; i < kNumLanes; ++i) {
    inverse_peak[i] = Reciprocal(SignedPeak(src + kSub6 * i, kSub6));
  }
  Lanes best_step = kZero;
  Lanes best_gain = kUnreached;
  for (int i = -9; i <= 9; ++i) {
    const Lanes inverse =
        inverse_peak * -(32.0f + 0.1f * static_cast<float>(i));
    Lanes sum_xq = kZero;
    Lanes sum_qq = kZero;
    for (int e = 0; e < kSub6; ++e) {
      const Lanes q = Round(inverse * group.x[e], kLow6, kHigh6);
      const Lanes wq = group.weight[e] * q;
      sum_xq += wq * group.x[e];
      sum_qq += wq * q;
    }
    const Lanes step = sum_xq / sum_qq;
    const Lanes gain = step * sum_xq;  // error removed
    const auto better = (sum_qq > kZero) & (gain > best_gain);
    best_gain = better ? gain : best_gain;
    best_step = better ? step : best_step;
  }
  return best_step;
}

Lanes WeightedError6(const SymmetricGroup& group, Lanes step) {
  const Lanes inverse = Reciprocals(step);
  Lanes error = kZero;
  for (int e = 0; e < kSub6; ++e) {
    const Lanes q = Round(group.x[e] * inverse, kLow6, kHigh6);
    const Lanes diff = step * q - group.x[e];
    error += group.weight[e] * diff * diff;
  }
  return error;
}

Lanes SearchInteger6(const SymmetricGroup& group, Lanes real_step, float d) {
  constexpr Lanes kLowest = Splat(-128.0f);
  constexpr Lanes kHighest = Splat(127.0f);
  const Lanes middle = Round(real_step * Reciprocal(d), kLowest, kHighest);
  Lanes best = middle;
  Lanes best_error = -kUnreached;
  for (int i = -kReach6; i <= kReach6; ++i) {
    const Lanes scale =
        Round(middle + static_cast<float>(i), kLowest, kHighest);
    const Lanes error = WeightedError6(group, d * scale);
    const auto better = error < best_error;
    best_error = better ? error : best_error;
    best = better ? scale : best;
  }
  return best;
}

}  // namespace

AffineBlock FitAffineBlock(const float* src, int max_level) {
  const Lanes max_q = Splat(static_cast<float>(max_level));
  const AffineGroup groups[kNumGroups] = {AffineGroup(src),
                                          AffineGroup(src + kSub * kNumLanes)};
  Affine fits[kNumGroups];
  float max_step = 0.0f;
  float max_offset = 0.0f;
  for (int g = 0; g < kNumGroups; ++g) {
    fits[g] = SearchAffine(groups[g], max_q);
    for (int lane = 0; lane < kNumLanes; ++lane) {
      max_step = std::max(max_step, fits[g].step[lane]);
      max_offset = std::max(max_offset, fits[g].offset[lane]);
    }
  }

  AffineBlock block;
  block.d = EncodeScale(max_step / kMaxScale);
  block.dmin = EncodeScale(max_offset / kMaxScale);
  const float d = F16ToF32(block.d);
  const float dmin = F16ToF32(block.dmin);
  for (int g = 0; g < kNumGroups; ++g) {
    const IntegerFit best = SearchIntegers(groups[g], fits[g], d, dmin, max_q);
    for (int lane = 0; lane < kNumLanes; ++lane) {
      const int i = kNumLanes * g + lane;
      block.scales.scale[i] = static_cast<uint8_t>(best.scale[lane]);
      block.scales.min[i] = static_cast<uint8_t>(best.min[lane]);
      const float step = d * best.scale[lane];
      const float offset = dmin * best.min[lane];
      const float inverse = Reciprocal(step);
      for (int e = kSub * i; e < kSub * (i + 1); ++e) {
        block.levels[e] = static_cast<uint8_t>(RoundInto(
            (src[e] + offset) * inverse, 0.0f, static_cast<float>(max_level)));
      }
    }
  }
  return block;
}

SymmetricBlock FitSymmetricBlock(const float* src) {
  constexpr int kStride = kSub6 * kNumLanes;
  Lanes steps[kNumGroups6];
  float peak = 0.0f;  // the step of largest magnitude
  float magnitude = 0.0f;
  for (int g = 0; g < kNumGroups6; ++g) {
    const float* from = src + kStride * g;
    steps[g] = SearchSteps(SymmetricGroup(from), from);
    for (int lane = 0; lane < kNumLanes; ++lane) {
      const float other = std::fabs(steps[g][lane]);
      if (other > magnitude) {
        magnitude = other;
        peak = steps[g][lane];
      }
    }
  }

  SymmetricBlock block;
  block.d = EncodeScale(peak / -128.0f);
  const float d = F16ToF32(block.d);
  for (int g = 0; g < kNumGroups6; ++g) {
    const Lanes best =
        SearchInteger6(SymmetricGroup(src + kStride * g), steps[g], d);
    for (int lane = 0; lane < kNumLanes; ++lane) {
      const int i = kNumLanes * g + lane;
      block.scales[i] = static_cast<int8_t>(best[lane]);
      const float inverse = Reciprocal(d * best[lane]);
      for (int e = kSub6 * i; e < kSub6 * (i + 1); ++e) {
        block.levels[e] = static_cast<uint8_t>(
            32 + RoundInto(src[e] * inverse, -32.0f, 31.0f));
      }
    }
  }
  return block;
}

}  // namespace thermocline
