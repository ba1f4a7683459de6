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
  const std::byte* first;
  size_t row_bytes;
  size_t num_rows;
  // What is read after them: an address, as it may be past what a pointer may
  // point to, or 0.
  uintptr_t next;
  size_t next_row_bytes;

  const std::byte* row(size_t r) const { return first + r * row_bytes; }
};

// Lines that are asked for, into the second level of the cache, a few at a time
// while something else is done: many at once wait for each other.
class LinesToAsk {
 public:
  // Of rows from `begin` on; behind the last, of what is read next.
  LinesToAsk(const HalfRows& rows, size_t begin, size_t num_rows) {
    if (begin < rows.num_rows) {
      next_ = reinterpret_cast<uintptr_t>(rows.row(begin));
      end_ = next_ + Min(num_rows, rows.num_rows - begin) * rows.row_bytes;
    } else {
      next_ = rows.next;
      end_ = next_ + num_rows * rows.next_row_bytes;
    }
  }

  size_t num_left() const { return LinesOf(end_ - next_); }
  void Ask(size_t num_lines) {
    for (size_t i = 0; i < num_lines && next_ < end_; ++i) {
      AskForLine<2>(next_);
      next_ += kLineBytes;
    }
  }

 private:
  uintptr_t next_;
  uintptr_t end_;
};

// 32 elements of a key in a line of both halves: the elements i and 16 + i.
[[gnu::always_inline]] inline void SplitKeyStep(const std::byte* key,
                                                std::byte* line) {
  Store(SplitPairs(LoadF16(key), LoadF16(key + kLanes * 2)), line);
}

// A key in lines of tiles [step] of both halves. Behind the last row it is
// zero.
inline void SplitKey(const HalfRows& keys, size_t r, size_t num_steps,
                     std::byte* line) {
  if (r >= keys.num_rows) {
    for (size_t step = 0; step < num_steps; ++step, line += kHalfTiles) {
      Store({}, line);
    }
    return;
  }
  const std::byte* at = keys.row(r);
  for (size_t step = 0; step < num_steps; ++step, line += kHalfTiles) {
    SplitKeyStep(at, line);
    at += kStep * 2;
  }
}

// The values r and r + 1 in lines of tiles [kTiles] of both halves: pairs of
// what they have in 16 columns. Behind the last row they are zero.
template <size_t kTiles>
[[gnu::always_inline]] inline void SplitValues(const HalfRows& values, size_t r,
                                               size_t first_column,
                                               std::byte* line) {
  const auto load = [&](size_t row, size_t tile) {
    return row < values.num_rows
               ? LoadF16(values.row(row) + (first_column + tile * kTile) * 2)
               : _mm512_setzero_ps();
  };
  for (size_t i = 0; i < kTiles; ++i) {
    Store(SplitPairs(load(r, i), load(r + 1, i)), line + i * kHalfTiles);
  }
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_AMX_ATTENTION_SPLIT_H_
