// The quantised blocks byte by byte, as in GGUF files (docs/formats/blocks.md).
// Fields of type uint16_t named d, dmin, m are IEEE binary16. All structs have
// alignment 1 or 2 and no padding; data in files is aligned to neither.
#ifndef THERMOCLINE_TENSOR_BLOCKS_H_
#define THERMOCLINE_TENSOR_BLOCKS_H_

#include <cstdint>

namespace thermocline {

inline constexpr int kBlock = 32;        // elements of the legacy blocks
inline constexpr int kSuperBlock = 256;  // elements of the K blocks

// y[j] = d * q[j]
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// y[j] = d * (lo(qs[j]) - 8), y[j+16] = d * (hi(qs[j]) - 8), j < 16
struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// As Q4_0, but y = d * nibble + m
struct BlockQ4_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// As Q4_0 with a fifth bit: bit j (low nibbles), bit j + 16 (high nibbles) of
// the little-endian word qh; y = d * (q - 16)
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

// As Q5_0, but y = d * q + m
struct BlockQ5_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

// Eight sub-blocks i of 32: y = d * sc[i] * n - dmin * mn[i]. Sub-blocks 2k
// (low nibbles) and 2k+1 (high) share qs[32k .. 32k+31]. Six-bit sc and mn are
// packed in `scales`; see UnpackScales in codec.h.
struct BlockQ4_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

// As Q4_K with a fifth bit: bit i of qh[l] for lane l of sub-block i.
struct BlockQ5_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

// Sixteen sub-blocks of 16. For half h, group g < 4, lane l < 32: low nibbles
// of ql[64h + l + 32 (g & 1)] if g < 2, else high; upper two bits
// qh[32h + l] >> 2g & 3; y = d * scales[8h + 2g + l / 16] * (q - 32).
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_BLOCKS_H_
