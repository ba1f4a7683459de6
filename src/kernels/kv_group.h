// Keys and values of a KV cache in Q8_0, the 64 positions of a page together:
// attention finds bytes of many positions side by side in the order in which it
// reads them, where rows would have to be transposed for every token.
//
// A group of B blocks of 32 elements has as many bytes as 64 rows:
//   scales  f16 [B][64]   of block b of position p
//   quants  of keys    u8 [4][B][8][16][4]: element 4 i + j of block b of
//                      position 16 s + p at [s][b][i][p][j], plus 128
//           of values  i8 [B][16][32][4]: element c of block b of position
//                      4 t + j at [b][t][c][j]
#ifndef THERMOCLINE_KERNELS_KV_GROUP_H_
#define THERMOCLINE_KERNELS_KV_GROUP_H_

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"

namespace thermocline::kernels {

inline constexpr size_t kKvGroup = 64;  // positions
static_assert(kKvGroup == kKvPage, "a page is a group");

// In bytes from a group's beginning, all of these.
[[gnu::always_inline]] constexpr size_t ScaleInGroup(size_t block_idx,
                                                     size_t position) {
  return (block_idx * kKvGroup + position) * sizeof(uint16_t);
}
[[gnu::always_inline]] constexpr size_t KeyInGroup(size_t num_blocks,
                                                   size_t block_idx,
                                                   size_t position, size_t i) {
  const size_t block = position / 16 * num_blocks + block_idx;
  return ScaleInGroup(num_blocks, 0) + block * 16 * kBlock + i / 4 * 64 +
         position % 16 * 4 + i % 4;
}
[[gnu::always_inline]] constexpr size_t ValueInGroup(size_t num_blocks,
                                                     size_t block_idx,
                                                     size_t position,
                                                     size_t i) {
  return ScaleInGroup(num_blocks, 0) + block_idx * kKvGroup * kBlock +
         (position / 4 * kBlock + i) * 4 + position % 4;
}

// In which order attention() of an ISA reads best. kGroups: only for keys and
// values that are both Q8_0, with positions from a multiple of kKvGroup on.
KvOrder KvOrderFor(Isa isa, DType k_dtype, DType v_dtype);

// Write x [n], n % 32 == 0, as position `position` < kKvGroup of a group; the
// others stay. As KernelTable::store_row rounds. Threads: different positions
// of a group may be written at once.
void StoreKeyInGroup(const KernelTable& kernels, const float* x, size_t n,
                     size_t position, std::byte* group);
void StoreValueInGroup(const KernelTable& kernels, const float* x, size_t n,
                       size_t position, std::byte* group);

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_KV_GROUP_H_
