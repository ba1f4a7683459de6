// The search for the small integer scales of the K types' blocks: what makes
// quantising slow, and good.
#ifndef THERMOCLINE_TENSOR_K_SEARCH_H_
#define THERMOCLINE_TENSOR_K_SEARCH_H_

#include <cstdint>

#include "tensor/blocks.h"
#include "tensor/codec.h"

namespace thermocline {

inline constexpr int kSub = 32;   // elements of a sub-block of Q4_K and Q5_K
inline constexpr int kSub6 = 16;  // of Q6_K

// A block of Q4_K or Q5_K before it is packed: element e of sub-block i is
// about d * scale[i] * levels[32 i + e] - dmin * min[i].
struct AffineBlock {
  uint16_t d;
  uint16_t dmin;
  KScales scales;
  uint8_t levels[kSuperBlock];  // at most max_level
};

// A block of Q6_K: element e of sub-block i is about
// d * scales[i] * (levels[16 i + e] - 32).
struct SymmetricBlock {
  uint16_t d;
  int8_t scales[16];
  uint8_t levels[kSuperBlock];  // below 64
};

// Both read 256 numbers at src. The choices make the weighted squared error
// small that llama.cpp's quantisers without an importance matrix go by: a
// number counts by its size plus the root mean square of its sub-block
// (affine), or by its square (symmetric). Non-finite numbers give unspecified,
// but valid, blocks. Deterministic; about 17 and 13 ns per number,
// on a core of a server.
AffineBlock FitAffineBlock(const float* src, int max_level);
SymmetricBlock FitSymmetricBlock(const float* src);

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_K_SEARCH_H_
