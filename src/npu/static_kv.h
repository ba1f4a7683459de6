// Keys and values of one sequence, as graphs read them.
#ifndef THERMOCLINE_NPU_STATIC_KV_H_
#define THERMOCLINE_NPU_STATIC_KV_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "npu/static_model.h"
#include "os/memory.h"

namespace thermocline::npu {

// Of a layer, one position: elements of F16.
struct KvWidths {
  size_t k = 0;  // KVH * K
  size_t v = 0;  // KVH * Kv
};
KvWidths KvWidthsOf(const model::Config& config, size_t layer_idx);

// Of all layers, at one address for all time: [positions, KVH, K] and
// [positions, KVH, Kv] of each, zero at first. What is there is finite, whoever
// may see it: what a mask closes counts 0 times.
// Threads  Keep and Give of different positions at the same time.
class StaticKv {
 public:
  // kResourceExhausted.
  static Result<StaticKv> Create(const model::Config* config,
                                 int64_t num_positions);

  std::byte* keys(size_t layer_idx) const { return layers_[layer_idx].k; }
  std::byte* values(size_t layer_idx) const { return layers_[layer_idx].v; }
  uint64_t num_bytes() const { return buffer_.size(); }

  void Clear() const;  // zeros again

  // New rows, [count, KVH * K] and [count, KVH * Kv], as a graph gives them.
  // kCorrupt, and nothing is kept: one is not finite.
  Status Keep(size_t layer_idx, int64_t first, int64_t count, const uint16_t* k,
              const uint16_t* v) const;
  // From the host's cache; of those that are not finite there, zeros.
  void Take(size_t layer_idx, int64_t first, int64_t count,
            const KvSource& source) const;
  // To the host's. key_rows: room for `count` rows of keys.
  void Give(size_t layer_idx, int64_t first, int64_t count, const KvSink& sink,
            uint16_t* key_rows) const;

 private:
  struct Layer {
    std::byte* k = nullptr;
    std::byte* v = nullptr;
    KvWidths widths;

    uint16_t* k_row(int64_t position) const {
      return reinterpret_cast<uint16_t*>(k) +
             static_cast<size_t>(position) * widths.k;
    }
    uint16_t* v_row(int64_t position) const {
      return reinterpret_cast<uint16_t*>(v) +
             static_cast<size_t>(position) * widths.v;
    }
  };

  const model::Config* config_ = nullptr;
  os::AlignedBuffer buffer_;
  std::vector<Layer> layers_;
};

// Of Create's; saturates.
uint64_t StaticKvBytes(const model::Config& config, int64_t num_positions);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_STATIC_KV_H_
