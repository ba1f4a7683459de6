// What a layer's attention has on a device: weights, and the arrays of a call.
#ifndef THERMOCLINE_ENGINE_ATTENTION_DEVICE_ATTENTION_ARRAYS_H_
#define THERMOCLINE_ENGINE_ATTENTION_DEVICE_ATTENTION_ARRAYS_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "engine/device/weight_loader.h"
#include "kernels/device_ops.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// A layer's weights as operations take them.
struct AttentionOnDevice {
  kernels::DeviceMatrix q, k, v, out;
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* out_bias = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;

  // q, k and v with their biases lie one behind the other.
  bool AreOneMatrix() const;
};

// WeightLoader's errors.
Result<AttentionOnDevice> LoadAttention(const model::AttentionWeights& weights,
                                        WeightLoader& loader);

// Elements that a rope turns together, in a head; 0: none are turned.
size_t NumRopePairs(const model::Config& config,
                    const model::AttentionSpec& spec);

// The same arrays in the lane's pinned and device memory, of so many rows that
// see so many positions at most: no gaps, so that each way is one copy.
struct AttentionArrays {
  // Goes over:
  float* x = nullptr;              // [T, D]
  float* cos = nullptr;            // [T, pairs]
  float* sin = nullptr;            // [T, pairs]
  uint32_t* page_table = nullptr;  // [T, pages]
  uint32_t* places = nullptr;      // [T]
  uint32_t* counts = nullptr;      // [T]
  float* q = nullptr;              // [T, H * K] the device's alone
  // Comes back:
  float* k = nullptr;    // [T, KVH * K], rotated
  float* v = nullptr;    // [T, KVH * Kv]
  float* out = nullptr;  // [T, D]
  // The device's alone:
  float* attended = nullptr;  // [T, H * Kv]
  float* partials = nullptr;
  std::byte* scratch = nullptr;

  uint64_t bytes_in = 0;      // from x to the end of counts
  uint64_t bytes_out = 0;     // from k to the end of out
  uint64_t pinned_bytes = 0;  // from x to the end of out
  uint64_t num_bytes = 0;     // of all

  // Of one row: q, k and v are one array.
  bool AreOneRow(const model::AttentionSpec& spec) const;
};

// Of a null base: sizes alone.
AttentionArrays CarveAttention(std::byte* base, const model::Config& config,
                               size_t layer_idx, size_t num_rows,
                               int64_t num_positions);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ATTENTION_DEVICE_ATTENTION_ARRAYS_H_
