// Keys and values of every position that a sequence has passed.
#ifndef THERMOCLINE_ENGINE_KV_KV_CACHE_H_
#define THERMOCLINE_ENGINE_KV_KV_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "os/memory.h"
#include "tensor/dtype.h"

namespace thermocline::engine {

// Per layer: K [KVH, context, K], then V [KVH, context, Kv]. A head's positions
// lie together, as attention reads them: one stream of memory after the other.
// In groups (kernels/kv_group.h) there are so many positions that all are
// whole.
struct KvLayout {
  DType k_type;
  DType v_type;
  kernels::KvOrder order;
  int64_t num_layers;
  int64_t context;
  uint64_t k_row_bytes;  // of one position, all heads
  uint64_t v_row_bytes;
  uint64_t k_head_bytes;  // of one position, one head
  uint64_t v_head_bytes;
  uint64_t k_stream_bytes;  // of one head, all positions; a multiple of 64
  uint64_t v_stream_bytes;
  uint64_t v_offset;  // of the values behind a layer's start
  uint64_t layer_bytes;
  uint64_t num_bytes;  // of everything

  // Bytes that attention over `num_positions` reads, all layers.
  uint64_t BytesRead(int64_t num_positions) const {
    return static_cast<uint64_t>(num_layers) *
           static_cast<uint64_t>(num_positions) * (k_row_bytes + v_row_bytes);
  }
};

// kInvalidArgument: a type other than F32, F16, Q8_0, or a head width that
// Q8_0's blocks do not divide; kResourceExhausted: the size overflows.
Result<KvLayout> PlanKvCache(const model::Config& config, DType k_type,
                             DType v_type, int64_t context,
                             kernels::KvOrder order = kernels::KvOrder::kRows);

// Owns the memory. Threads: readers and writers of different rows;
// in groups, writers of different positions, and readers of different groups.
class KvCache {
 public:
  // kResourceExhausted: no memory.
  static Result<KvCache> Create(const KvLayout& layout);

  const KvLayout& layout() const { return layout_; }
  // The rows of a head's next positions follow. In groups: of positions that
  // are multiples of kKvGroup.
  std::byte* keys(int64_t layer_idx, size_t kv_head, int64_t position) const {
    return layer(layer_idx) + kv_head * layout_.k_stream_bytes +
           static_cast<uint64_t>(position) * layout_.k_head_bytes;
  }
  std::byte* values(int64_t layer_idx, size_t kv_head, int64_t position) const {
    return layer(layer_idx) + layout_.v_offset +
           kv_head * layout_.v_stream_bytes +
           static_cast<uint64_t>(position) * layout_.v_head_bytes;
  }

 private:
  KvCache(const KvLayout& layout, os::AlignedBuffer buffer)
      : layout_(layout), buffer_(std::move(buffer)) {}
  std::byte* layer(int64_t layer_idx) const {
    return buffer_.data() +
           static_cast<uint64_t>(layer_idx) * layout_.layer_bytes;
  }

  KvLayout layout_;
  os::AlignedBuffer buffer_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_KV_KV_CACHE_H_
