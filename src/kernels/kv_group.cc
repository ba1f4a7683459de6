#include "kernels/kv_group.h"

#include <cstring>

namespace thermocline::kernels {
namespace {

// Rounds x block by block; place(quants, block_idx) copies them.
template <class Function>
void StoreInGroup(const KernelTable& kernels, const float* x, size_t n,
                  size_t position, std::byte* group, Function place) {
  for (size_t b = 0; b < n / kBlock; ++b) {
    BlockQ8_0 block;
    kernels.store_row(DType::kQ8_0, x + b * kBlock, kBlock,
                      reinterpret_cast<std::byte*>(&block));
    std::memcpy(group + ScaleInGroup(b, position), &block.d, sizeof(block.d));
    place(block.qs, b);
  }
}

}  // namespace

KvOrder KvOrderFor(Isa isa, DType k_dtype, DType v_dtype) {
  const bool has_kernel = isa == Isa::kAvx512Vnni || isa == Isa::kAmx;
  const bool are_q8 = k_dtype == DType::kQ8_0 && v_dtype == DType::kQ8_0;
  return has_kernel && are_q8 ? KvOrder::kGroups : KvOrder::kRows;
}

void StoreKeyInGroup(const KernelTable& kernels, const float* x, size_t n,
                     size_t position, std::byte* group) {
  const auto place = [&](const int8_t* quants, size_t b) {
    for (size_t i = 0; i < kBlock; i += 4) {
      uint32_t quad;
      std::memcpy(&quad, quants + i, sizeof(quad));
      quad ^= 0x80808080U;  // plus 128
      std::memcpy(group + KeyInGroup(n / kBlock, b, position, i), &quad,
                  sizeof(quad));
    }
  };
  StoreInGroup(kernels, x, n, position, group, place);
}

void StoreValueInGroup(const KernelTable& kernels, const float* x, size_t n,
                       size_t position, std::byte* group) {
  const auto place = [&](const int8_t* quants, size_t b) {
    for (size_t i = 0; i < kBlock; ++i) {
      group[ValueInGroup(n / kBlock, b, position, i)] =
          static_cast<std::byte>(quants[i]);
    }
  };
  StoreInGroup(kernels, x, n, position, group, place);
}

}  // namespace thermocline::kernels
