#include "engine/attention/device_attention_arrays.h"

#include <algorithm>

#include "compute/carver.h"
#include "engine/kv/kv_layout.h"

namespace thermocline::engine {

bool AttentionOnDevice::AreOneMatrix() const {
  const auto follows = [](const kernels::DeviceMatrix& a,
                          const kernels::DeviceMatrix& b) {
    return a.dtype == b.dtype && a.row_bytes == b.row_bytes &&
           a.rows + a.num_bytes() == b.rows;
  };
  if (!follows(q, k) || !follows(k, v)) return false;
  if (q_bias == nullptr) return k_bias == nullptr && v_bias == nullptr;
  return k_bias == q_bias + q.num_rows && v_bias == k_bias + k.num_rows;
}

Result<AttentionOnDevice> LoadAttention(const model::AttentionWeights& weights,
                                        WeightLoader& loader) {
  AttentionOnDevice there;
  TC_ASSIGN_OR_RETURN(there.q, loader.Matrix("the query matrix", weights.q));
  TC_ASSIGN_OR_RETURN(there.k, loader.Matrix("the key matrix", weights.k));
  TC_ASSIGN_OR_RETURN(there.v, loader.Matrix("the value matrix", weights.v));
  TC_ASSIGN_OR_RETURN(there.out,
                      loader.Matrix("attention's output matrix", weights.out));
  TC_ASSIGN_OR_RETURN(there.q_bias, loader.Vector(weights.q_bias));
  TC_ASSIGN_OR_RETURN(there.k_bias, loader.Vector(weights.k_bias));
  TC_ASSIGN_OR_RETURN(there.v_bias, loader.Vector(weights.v_bias));
  TC_ASSIGN_OR_RETURN(there.out_bias, loader.Vector(weights.out_bias));
  TC_ASSIGN_OR_RETURN(there.q_norm, loader.Vector(weights.q_norm));
  TC_ASSIGN_OR_RETURN(there.k_norm, loader.Vector(weights.k_norm));
  return there;
}

size_t NumRopePairs(const model::Config& config,
                    const model::AttentionSpec& spec) {
  if (spec.rope == model::AttentionSpec::kNoRope) return 0;
  return config.ropes[static_cast<size_t>(spec.rope)].width / 2;
}

bool AttentionArrays::AreOneRow(const model::AttentionSpec& spec) const {
  return k == q + spec.num_heads * spec.key_width &&
         v == k + spec.num_kv_heads * spec.key_width;
}

AttentionArrays CarveAttention(std::byte* base, const model::Config& config,
                               size_t layer_idx, size_t num_rows,
                               int64_t num_positions) {
  const model::AttentionSpec& spec = config.layers[layer_idx].attention;
  const size_t num_pairs = NumRopePairs(config, spec);
  const size_t attended_width = spec.num_heads * spec.value_width;
  compute::Carver carver(base);
  AttentionArrays arrays;
  arrays.x = carver.Take<float>(num_rows, config.width);
  arrays.cos = carver.Take<float>(num_rows, num_pairs);
  arrays.sin = carver.Take<float>(num_rows, num_pairs);
  arrays.page_table =
      carver.Take<uint32_t>(num_rows, KvPagesFor(num_positions));
  arrays.places = carver.Take<uint32_t>(num_rows, 1);
  arrays.counts = carver.Take<uint32_t>(num_rows, 1);
  arrays.bytes_in = carver.used();
  // One behind the other: a row's three are one product where weights are too.
  arrays.q = carver.Take<float>(num_rows, spec.num_heads * spec.key_width);
  const uint64_t begin_out = carver.used();
  arrays.k = carver.Take<float>(num_rows, spec.num_kv_heads * spec.key_width);
  arrays.v = carver.Take<float>(num_rows, spec.num_kv_heads * spec.value_width);
  arrays.out = carver.Take<float>(num_rows, config.width);
  arrays.bytes_out = carver.used() - begin_out;
  arrays.pinned_bytes = carver.used();
  arrays.attended = carver.Take<float>(num_rows, attended_width);
  arrays.partials = carver.Take<float>(
      1,
      kernels::DecodePartialFloats(num_rows, spec.num_heads, spec.value_width,
                                   static_cast<size_t>(num_positions)));
  arrays.scratch =
      carver.TakeBytes(kernels::QuantizedRowsBytes(
                           std::max(config.width, attended_width), num_rows),
                       1);
  arrays.num_bytes = carver.used();
  return arrays;
}

}  // namespace thermocline::engine
