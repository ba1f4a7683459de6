// Keys, values and queries in tiles of halves (amx_halves.h): what
// amx_attention.cc and amx_grouped_attention.cc multiply.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_SPLIT_H_
#define THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_SPLIT_H_

// Empty unless compiled for it, so that it compiles alone anywhere.
#if defined(__AVX512BF16__) && defined(__AMX_TILE__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/amx_halves.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/attention_weights_avx512.h"
#include "kernels/kernels.h"

// Unnamed in a header for the reason that int8_avx512.h gives.
namespace thermocline::kernels {
namespace {

constexpr size_t kStep = 32;  // terms of a tile's products
constexpr size_t kTileLineBytes = kTileBytes / kTile;
constexpr size_t kHalfTiles = 2 * kTileBytes;  // the upper halves, the lower

inline void Store(const Halves& halves, std::byte* line) {
  _mm512_store_si512(line, halves.upper);
  _mm512_store_si512(line + kTileBytes, halves.lower);
}

inline __m512i UpperBits() {
  return _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
}

// In lane i, the upper 16 bits of b[i] above those of a[i].
inline __m512i PairUpper(__m512 a, __m512 b) {
  constexpr int kFirstOrBothOfOthers = 0xF8;
  return _mm512_ternarylogic_epi32(
      _mm512_srli_epi32(_mm512_castps_si512(a), 16), _mm512_castps_si512(b),
      UpperBits(), kFirstOrBothOfOthers);
}

inline __m512 WithoutUpper(__m512 x) {
  const __m512i upper = _mm512_and_si512(_mm512_castps_si512(x), UpperBits());
  return _mm512_sub_ps(x, _mm512_castsi512_ps(upper));
}

// Pairs of a[i] and b[i]. Exact for what was F16; of all else the lower half is
// cut off.
inline Halves SplitPairs(__m512 a, __m512 b) {
  return {PairUpper(a, b), PairUpper(WithoutUpper(a), WithoutUpper(b))};
}

// Pairs of a[i] and b[i], rounded.
inline Halves RoundPairs(__m512 a, __m512 b) {
  const Halves in_order = SplitInOrder(a, b);
  const __m512i of_words = _mm512_add_epi32(
      _mm512_set1_epi32(16 << 16),  // i, and 16 + i above it
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                           12, 13, 14, 15),
                         _mm512_set1_epi32(0x00010001)));
  return {_mm512_permutexvar_epi16(of_words, in_order.upper),
          _mm512_permutexvar_epi16(of_words, in_order.lower)};
}

// Keys or values of all pieces as they lie in the cache, in F16.
struct HalfRows {
  const std::byte* const* pages;
  size_t row_bytes;
  size_t begin;  // of the first page that some query sees part of
  size_t num_rows;

  const std::byte* row(size_t r) const {
    return pages[r / kKvPage] + r % kKvPage * row_bytes;
  }
};

// Lines that are prefetched, into the second level of the cache, a few at a
// time while something else is done: many at once wait for each other.
class LinesToPrefetch {
 public:
  // Of at most two pages' rows from `begin` on; behind the last, of the
  // beginning of what is read next.
  LinesToPrefetch(const HalfRows& rows, size_t begin, size_t num_rows,
                  const HalfRows& next) {
    if (begin < rows.num_rows) {
      Add(rows, begin, Min(num_rows, rows.num_rows - begin));
    } else {
      Add(next, next.begin, Min(num_rows, next.num_rows - next.begin));
    }
  }

  size_t num_left() const {
    return LinesOf(now_.end - now_.next) + LinesOf(then_.end - then_.next);
  }
  void Prefetch(size_t num_lines) {
    for (size_t i = 0; i < num_lines; ++i) {
      if (now_.next >= now_.end) {
        now_ = then_;
        then_ = {};
        if (now_.next >= now_.end) return;
      }
      PrefetchLine<2>(now_.next);
      now_.next += kLineBytes;
    }
  }

 private:
  struct Range {
    uintptr_t next = 0;
    uintptr_t end = 0;
  };
  static Range RangeOf(const HalfRows& rows, size_t begin, size_t num_rows) {
    if (num_rows == 0) return {};
    const auto first = reinterpret_cast<uintptr_t>(rows.row(begin));
    return {first, first + num_rows * rows.row_bytes};
  }
  void Add(const HalfRows& rows, size_t begin, size_t num_rows) {
    const size_t in_page = Min(num_rows, kKvPage - begin % kKvPage);
    now_ = RangeOf(rows, begin, in_page);
    then_ = RangeOf(rows, begin + in_page, Min(num_rows - in_page, kKvPage));
  }

  Range now_;
  Range then_;
};

// 32 elements of a key in a line of both halves: the elements i and 16 + i.
[[gnu::always_inline]] inline void SplitKeyStep(const std::byte* key,
                                                std::byte* line) {
  Store(SplitPairs(LoadF16(key), LoadF16(key + kLanes * 2)), line);
}

// A key in lines of tiles [step] of both halves. Without one they are zero.
inline void SplitKey(const std::byte* key, size_t num_steps, std::byte* line) {
  if (key == nullptr) {
    for (size_t step = 0; step < num_steps; ++step, line += kHalfTiles) {
      Store({}, line);
    }
    return;
  }
  for (size_t step = 0; step < num_steps; ++step, line += kHalfTiles) {
    SplitKeyStep(key, line);
    key += kStep * 2;
  }
}

// A value and the next, from some column on, in lines of tiles [kTiles] of both
// halves: pairs of what they have in 16 columns. Without a value it is zero.
template <size_t kTiles>
[[gnu::always_inline]] inline void SplitValues(const std::byte* even,
                                               const std::byte* odd,
                                               std::byte* line) {
  const auto load = [](const std::byte* value, size_t tile) {
    return value != nullptr ? LoadF16(value + tile * kTile * 2)
                            : _mm512_setzero_ps();
  };
  for (size_t i = 0; i < kTiles; ++i) {
    Store(SplitPairs(load(even, i), load(odd, i)), line + i * kHalfTiles);
  }
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_SPLIT_H_
