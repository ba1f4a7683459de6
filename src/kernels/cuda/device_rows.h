// How rows of weights lie in the device's memory: what one lane loads at once
// is aligned, and what a warp loads at once lies side by side. For the host,
// which fills them; dot_rows.h reads them.
//
// A row of n elements is a few arrays, one behind the other, each of all
// blocks:
//   F16, BF16  the elements
//   Q8_0       quants, 32 bytes a block; scales d
//   Q4_0       quants, 16 bytes a block; scales d
//   Q4_K       quants, 16 bytes for each 32 elements; heads, 16 bytes a block
//   Q5_K       the same; fifth bits, a word for each 32 elements
//   Q6_K       quants as in Q4_K; upper bits, two words for each 32 elements;
//              scales, a byte for each 16 elements; d, 2 bytes a block
// Byte j of 16 bytes of quants is element j (low nibble) and j + 16 (high), in
// all types. Nibble i of a head's words 1 to 3 is sub-block i's: of its scale,
// of its minimum, and the upper two bits of both; word 0 is d and dmin.
// Elements 4k to 4k + 3 have their fifth bits in bits 8b + k of the word, those
// 16 further on in bits 8b + k + 4; their upper bits in bits 8b + 2k of the
// first word and of the second.
#ifndef THERMOCLINE_KERNELS_CUDA_DEVICE_ROWS_H_
#define THERMOCLINE_KERNELS_CUDA_DEVICE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/blocks.h"
#include "tensor/codec.h"
#include "tensor/dtype.h"

namespace thermocline::cuda {

// Rows begin at multiples of this many bytes.
inline constexpr size_t kDeviceRowAlignment = 16;

// Requires CanLaunch(dtype) (launch.h) and whole blocks.
inline size_t DeviceRowBytes(DType dtype, size_t n) {
  return (BytesOf(dtype, n) + kDeviceRowAlignment - 1) / kDeviceRowAlignment *
         kDeviceRowAlignment;
}

namespace device_rows_internal {

inline void StoreWord(uint32_t word, std::byte* out) {
  std::memcpy(out, &word, sizeof word);
}

// 32 levels: their nibbles to `quants`; what is above these, `upper_bits` bits
// each, to `upper`, as many words.
inline void PackLevels(const uint8_t levels[32], int upper_bits,
                       std::byte* quants, std::byte* upper) {
  for (int j = 0; j < 16; ++j) {
    quants[j] =
        static_cast<std::byte>((levels[j] & 15) | (levels[j + 16] & 15) << 4);
  }
  if (upper_bits == 0) return;
  uint32_t words[2] = {};
  for (int j = 0; j < 32; ++j) {
    const int byte = j % 4, group = j % 16 / 4, half = j / 16;
    const uint32_t bits = levels[j] >> 4;
    if (upper_bits == 1) words[0] |= bits << (8 * byte + group + 4 * half);
    if (upper_bits == 2) words[half] |= bits << (8 * byte + 2 * group);
  }
  for (int i = 0; i < upper_bits; ++i) StoreWord(words[i], upper + 4 * i);
}

template <typename Block>  // Q4_K, Q5_K
void PackHead(const Block& block, std::byte* head) {
  const KScales scales = UnpackScales(block.scales);
  uint32_t words[4] = {block.d | uint32_t{block.dmin} << 16};
  for (int i = 0; i < 8; ++i) {
    const uint32_t scale = scales.scale[i], min = scales.min[i];
    words[1] |= (scale & 15) << (4 * i);
    words[2] |= (min & 15) << (4 * i);
    words[3] |= (scale >> 4 | min >> 4 << 2) << (4 * i);
  }
  std::memcpy(head, words, sizeof words);
}

template <typename Block>
Block BlockAt(const std::byte* row, size_t index) {
  Block block;
  std::memcpy(&block, row + index * sizeof block, sizeof block);
  return block;
}

inline void PackQ8_0(const std::byte* row, size_t n, std::byte* out) {
  for (size_t b = 0; b < n / kBlock; ++b) {
    const auto block = BlockAt<BlockQ8_0>(row, b);
    std::memcpy(out + b * 32, block.qs, 32);
    std::memcpy(out + n + b * 2, &block.d, 2);
  }
}

inline void PackQ4_0(const std::byte* row, size_t n, std::byte* out) {
  for (size_t b = 0; b < n / kBlock; ++b) {
    const auto block = BlockAt<BlockQ4_0>(row, b);
    std::memcpy(out + b * 16, block.qs, 16);
    std::memcpy(out + n / 2 + b * 2, &block.d, 2);
  }
}

inline uint8_t NibbleOf(const uint8_t qs[128], int sub, int l) {
  const uint8_t byte = qs[sub / 2 * 32 + l];
  return sub % 2 == 0 ? byte & 15 : byte >> 4;
}

template <typename Block>
void PackAffine(const std::byte* row, size_t n, std::byte* out) {
  constexpr bool kHasFifth = sizeof(Block) == sizeof(BlockQ5_K);
  for (size_t b = 0; b < n / kSuperBlock; ++b) {
    const auto block = BlockAt<Block>(row, b);
    PackHead(block, out + n / 2 + b * 16);
    for (int sub = 0; sub < 8; ++sub) {
      uint8_t levels[32];
      for (int l = 0; l < 32; ++l) {
        levels[l] = NibbleOf(block.qs, sub, l);
        if constexpr (kHasFifth) levels[l] |= (block.qh[l] >> sub & 1) << 4;
      }
      const size_t unit = b * 8 + static_cast<size_t>(sub);
      PackLevels(levels, kHasFifth ? 1 : 0, out + unit * 16,
                 out + n / 2 + n / 16 + unit * 4);
    }
  }
}

inline void PackQ6_K(const std::byte* row, size_t n, std::byte* out) {
  std::byte* scales = out + n / 2 + n / 4;
  for (size_t b = 0; b < n / kSuperBlock; ++b) {
    const auto block = BlockAt<BlockQ6_K>(row, b);
    std::memcpy(scales + b * 16, block.scales, 16);
    std::memcpy(scales + n / 16 + b * 2, &block.d, 2);
    for (int sub = 0; sub < 8; ++sub) {
      const int half = sub / 4, group = sub % 4;
      uint8_t levels[32];
      for (int l = 0; l < 32; ++l) {
        const int low = block.ql[64 * half + l + 32 * (group & 1)];
        const int upper = block.qh[32 * half + l] >> (2 * group) & 3;
        levels[l] = static_cast<uint8_t>((group < 2 ? low & 15 : low >> 4) |
                                         upper << 4);
      }
      const size_t unit = b * 8 + static_cast<size_t>(sub);
      PackLevels(levels, 2, out + unit * 16, out + n / 2 + unit * 8);
    }
  }
}

}  // namespace device_rows_internal

// From a file's row, of any alignment, to DeviceRowBytes(dtype, n) bytes. Same
// requirements.
inline void PackDeviceRow(DType dtype, const std::byte* row, size_t n,
                          std::byte* out) {
  using namespace device_rows_internal;  // NOLINT(google-build-using-namespace)
  const size_t num_bytes = BytesOf(dtype, n);
  std::memset(out + num_bytes, 0, DeviceRowBytes(dtype, n) - num_bytes);
  switch (dtype) {
    case DType::kQ8_0:
      return PackQ8_0(row, n, out);
    case DType::kQ4_0:
      return PackQ4_0(row, n, out);
    case DType::kQ4_K:
      return PackAffine<BlockQ4_K>(row, n, out);
    case DType::kQ5_K:
      return PackAffine<BlockQ5_K>(row, n, out);
    case DType::kQ6_K:
      return PackQ6_K(row, n, out);
    default:
      std::memcpy(out, row, num_bytes);
  }
}

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_DEVICE_ROWS_H_
