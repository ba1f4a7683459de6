// From a query's scores to its weights, for the attention kernels of AVX-512.
#ifndef THERMOCLINE_KERNELS_CPU_ATTENTION_WEIGHTS_AVX512_H_
#define THERMOCLINE_KERNELS_CPU_ATTENTION_WEIGHTS_AVX512_H_

// Empty unless compiled for AVX-512, so that it compiles alone anywhere.
#if defined(__AVX512F__) && defined(__AVX512DQ__)

#include <immintrin.h>

#include <cstddef>
#include <initializer_list>

#include "kernels/kernels.h"

// Unnamed in a header on purpose: the including file must keep its own copy,
// compiled with its own flags.
namespace thermocline::kernels {
namespace {

constexpr size_t kLanes = 16;

constexpr size_t Min(size_t a, size_t b) { return a < b ? a : b; }

inline __mmask16 FirstLanes(size_t count) {
  return static_cast<__mmask16>((1U << count) - 1);
}

// e^x for x <= 0, but 0 below e^-64, where it could not be seen beside the 1 of
// the largest score. Relative error 2^-21 above -16, from where on the rounding
// of log2e counts, up to 2^-19.8 at -63.4; 1 for 0; NaN for NaN.
[[gnu::always_inline]] inline __m512 Weight(__m512 x) {
  const __m512 log2e = _mm512_set1_ps(1.44269504f);
  const __m512 whole =
      _mm512_roundscale_ps(_mm512_mul_ps(x, log2e), _MM_FROUND_TO_NEAREST_INT);
  const __m512 f = _mm512_fmsub_ps(x, log2e, whole);
  // 2^f on [-1/2, 1/2]
  __m512 power = _mm512_set1_ps(0.00133813025f);
  for (const float c :
       {0.00966636852f, 0.0555038101f, 0.24022349f, 0.693147181f, 1.0f}) {
    power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(c));
  }
  const __mmask16 seen =
      _mm512_cmp_ps_mask(x, _mm512_set1_ps(-64.0f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(seen, power, whole);
}

// tanh(x), relative error 2^-21; NaN for NaN.
[[gnu::always_inline]] inline __m512 Tanh(__m512 x) {
  const __m512 magnitude = _mm512_abs_ps(x);
  // Far from 0: 1 - 2 t / (1 + t), where t = e^(-2 |x|).
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 t = Weight(_mm512_mul_ps(magnitude, _mm512_set1_ps(-2.0f)));
  const __m512 far = _mm512_sub_ps(
      one, _mm512_div_ps(_mm512_add_ps(t, t), _mm512_add_ps(one, t)));
  // Near by: x + x^3 p(x^2).
  const __m512 square = _mm512_mul_ps(x, x);
  __m512 p = _mm512_set1_ps(0.00229177042f);
  for (const float c : {-0.00834308565f, 0.0217686556f, -0.0539592281f,
                        0.133333027f, -0.333333343f}) {
    p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(c));
  }
  const __m512 near =
      _mm512_fmadd_ps(_mm512_mul_ps(magnitude, square), p, magnitude);
  const __mmask16 is_near =
      _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(0.625f), _CMP_LT_OQ);
  const __m512 sign = _mm512_and_ps(x, _mm512_set1_ps(-0.0f));
  return _mm512_or_ps(_mm512_mask_mov_ps(far, is_near, near), sign);
}

// 16 scores become cap * tanh(score / cap).
[[gnu::always_inline]] inline void Cap(float cap, float* scores) {
  const __m512 factor = _mm512_set1_ps(cap);
  const __m512 x = _mm512_div_ps(_mm512_load_ps(scores), factor);
  _mm512_store_ps(scores, _mm512_mul_ps(Tanh(x), factor));
}

// What a query that sees nothing has for its largest score.
constexpr float kNoScore = -__builtin_inff();

// The n scores of a query become weights, zero behind them up to `end`.
// Writes the largest score and the sum of the weights.
inline void Exponentials(float* scores, size_t n, size_t end,
                         float* max_and_sum) {
  const size_t whole = n / kLanes * kLanes;
  const __mmask16 rest = FirstLanes(n - whole);
  // Two of each: they wait for themselves.
  __m512 max[2];
  max[0] = max[1] = _mm512_set1_ps(-3.40282347e38f);
  for (size_t p = 0; p < whole; p += kLanes) {
    __m512& of_turn = max[p / kLanes % 2];
    of_turn = _mm512_max_ps(of_turn, _mm512_load_ps(scores + p));
  }
  if (rest != 0) {
    max[0] = _mm512_mask_max_ps(max[0], rest, max[0],
                                _mm512_load_ps(scores + whole));
  }
  max_and_sum[0] = _mm512_reduce_max_ps(_mm512_max_ps(max[0], max[1]));
  const __m512 largest = _mm512_set1_ps(max_and_sum[0]);
  __m512 sum[2];
  sum[0] = sum[1] = _mm512_setzero_ps();
  const auto weigh = [&](size_t p,
                         __mmask16 lanes) __attribute__((always_inline)) {
    const __m512 weight = _mm512_maskz_mov_ps(
        lanes, Weight(_mm512_sub_ps(_mm512_load_ps(scores + p), largest)));
    _mm512_store_ps(scores + p, weight);
    sum[p / kLanes % 2] = _mm512_add_ps(sum[p / kLanes % 2], weight);
  };
  for (size_t p = 0; p + 2 * kLanes <= whole; p += 2 * kLanes) {
    weigh(p, FirstLanes(kLanes));
    weigh(p + kLanes, FirstLanes(kLanes));
  }
  if (whole / kLanes % 2 != 0) weigh(whole - kLanes, FirstLanes(kLanes));
  if (rest != 0) weigh(whole, rest);
  max_and_sum[1] = _mm512_reduce_add_ps(_mm512_add_ps(sum[0], sum[1]));
  for (size_t p = (n + kLanes - 1) / kLanes * kLanes; p < end; p += kLanes) {
    _mm512_store_ps(scores + p, _mm512_setzero_ps());
  }
}

// The scores of query number `query` of a call become weights likewise, with
// their cap and zero for what its window hides. Clears the query's partial sum,
// whose last floats are the largest score and the sum of the weights. The width
// of values is a multiple of kLanes.
inline void BeginSum(const AttentionArgs& args, size_t query, size_t end,
                     float* scores, float* out) {
  const size_t num_seen = args.PositionsOf(query);
  for (size_t i = 0; i < PartialAttentionFloats(args.v_width); i += kLanes) {
    _mm512_store_ps(out + i, _mm512_setzero_ps());
  }
  if (args.logit_cap != 0) {
    for (size_t p = args.FirstInPages(); p < num_seen; p += kLanes) {
      Cap(args.logit_cap, scores + p);
    }
  }
  if (args.HasWindow()) {
    const size_t hidden = Min(args.FirstOf(query), num_seen);
    for (size_t p = 0; p < hidden; ++p) scores[p] = kNoScore;
  }
  Exponentials(scores, num_seen, end, out + args.v_width);
}

// Makes the sum of a query that sees nothing neutral, all of whose weights were
// zero.
inline void EndSum(const AttentionArgs& args, size_t query, float* out) {
  if (args.SeesNothing(query)) out[args.v_width] = kNoScore;
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_ATTENTION_WEIGHTS_AVX512_H_
