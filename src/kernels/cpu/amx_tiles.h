// Tiles of AMX: their shape, and what turns 16 rows into columns.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_TILES_H_
#define THERMOCLINE_KERNELS_CPU_AMX_TILES_H_

// Empty unless compiled for it, so that it compiles alone anywhere.
#if defined(__AVX512F__) && defined(__AMX_TILE__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_avx512.h"

// Unnamed in a header for the reason that int8_avx512.h gives.
namespace thermocline::kernels {
namespace {

inline constexpr size_t kTile = 16;  // lines of 64 bytes
inline constexpr size_t kTileBytes = 1024;

// All tiles whole.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t line_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t num_lines[16] = {kTile, kTile, kTile, kTile,
                           kTile, kTile, kTile, kTile};
};

// Turns 16 rows of 16 lanes of 32 bits into its columns.
inline void Transpose(__m512i v[kTile]) {
  __m512i w[kTile];
  for (int i = 0; i < 16; i += 2) {
    w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  // v[4j + c]: in each 128 bits, column c of them of rows 4j .. 4j + 3.
  for (int j = 0; j < 16; j += 4) {
    v[j] = _mm512_unpacklo_epi64(w[j], w[j + 2]);
    v[j + 1] = _mm512_unpackhi_epi64(w[j], w[j + 2]);
    v[j + 2] = _mm512_unpacklo_epi64(w[j + 1], w[j + 3]);
    v[j + 3] = _mm512_unpackhi_epi64(w[j + 1], w[j + 3]);
  }
  for (int c = 0; c < 4; ++c) {
    const __m512i even_top = EvenLanes(v[c], v[c + 4]);
    const __m512i even_bottom = EvenLanes(v[c + 8], v[c + 12]);
    const __m512i odd_top = OddLanes(v[c], v[c + 4]);
    const __m512i odd_bottom = OddLanes(v[c + 8], v[c + 12]);
    w[c] = EvenLanes(even_top, even_bottom);
    w[c + 4] = EvenLanes(odd_top, odd_bottom);
    w[c + 8] = OddLanes(even_top, even_bottom);
    w[c + 12] = OddLanes(odd_top, odd_bottom);
  }
  for (size_t i = 0; i < kTile; ++i) v[i] = w[i];
}

}  // namespace
}  // namespace thermocline::kernels

#endif

#endif  // THERMOCLINE_KERNELS_CPU_AMX_TILES_H_
