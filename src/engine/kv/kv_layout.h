// How keys and values of a page of positions lie in memory.
#ifndef THERMOCLINE_ENGINE_KV_KV_LAYOUT_H_
#define THERMOCLINE_ENGINE_KV_KV_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "tensor/dtype.h"

namespace thermocline::engine {

// Positions of a page.
inline constexpr int64_t kKvPage = static_cast<int64_t>(kernels::kKvPage);

constexpr uint64_t KvPagesFor(int64_t num_positions) {
  return (static_cast<uint64_t>(num_positions) + kernels::kKvPage - 1) /
         kernels::kKvPage;
}

// One layer's part of a page: K [KVH, kKvPage, K], then V [KVH, kKvPage, Kv].
// A head's positions lie together, as attention reads them: as rows, or as one
// group (kernels/kv_group.h).
struct KvLayerLayout {
  uint64_t offset = 0;  // of the layer in a page
  size_t num_kv_heads = 0;
  size_t k_width = 0;  // elements of one head
  size_t v_width = 0;
  uint64_t k_head_bytes = 0;  // of one position, one head
  uint64_t v_head_bytes = 0;

  // In a page.
  uint64_t k_offset(size_t kv_head) const {
    return offset + kv_head * kernels::kKvPage * k_head_bytes;
  }
  uint64_t v_offset(size_t kv_head) const {
    return k_offset(num_kv_heads) + kv_head * kernels::kKvPage * v_head_bytes;
  }
  uint64_t position_bytes() const {
    return num_kv_heads * (k_head_bytes + v_head_bytes);
  }
};

// A page holds all layers, one after the other.
struct KvLayout {
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
  kernels::KvOrder order = kernels::KvOrder::kRows;
  std::vector<KvLayerLayout> layers;
  uint64_t page_bytes = 0;  // of everything; a multiple of 64

  const KvLayerLayout& layer(size_t layer_idx) const {
    return layers[layer_idx];
  }
  // Whether less than F16 is kept of keys or values.
  bool rounds() const {
    return k_type == DType::kQ8_0 || v_type == DType::kQ8_0;
  }
  // Of one position in all layers.
  uint64_t position_bytes() const { return page_bytes / kernels::kKvPage; }
};

// kInvalidArgument: a type other than F32, F16, Q8_0, or a layer's head width
// that Q8_0's blocks do not divide.
Result<KvLayout> PlanKvLayout(const model::Config& config, DType k_type,
                              DType v_type,
                              kernels::KvOrder order = kernels::KvOrder::kRows);

// Bytes of so many pages. kResourceExhausted: more than can be addressed.
Result<uint64_t> KvBytes(const KvLayout& layout, uint64_t num_pages);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_KV_KV_LAYOUT_H_
