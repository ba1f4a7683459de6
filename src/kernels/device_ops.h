// Every operation that a device computes: one plain struct of arguments each.
// device/ enqueues them; cuda/ launches them on a GPU, and the simulated device
// runs the host's kernels. All pointers are addresses of the device's memory
// (or of pinned memory that it reads), aligned to 16 bytes unless said.
//
// T is 1 to kDeviceRows: generated rows, of one or several sequences. Rows of
// activations lie one behind the other: [T, n] without padding. Sums have one
// order: the same arguments give the same bits, on every card and emulated. A
// row's result does not depend on the rows beside it. Outputs do not alias
// inputs unless said. What NaN and infinity in an input give is NaN or infinity
// in the output: callers look for it there.
//
// PowerInfer 5.4 (neuron-aware operators), field notes in docs/ARCHITECTURE.md.
#ifndef THERMOCLINE_KERNELS_DEVICE_OPS_H_
#define THERMOCLINE_KERNELS_DEVICE_OPS_H_

#include <cstddef>
#include <cstdint>
#include <variant>

#include "tensor/dtype.h"
#include "tensor/op_kinds.h"

namespace thermocline::kernels {

inline constexpr size_t kDeviceRows = 8;

// Words of a set of `count` neurons: bit i % 32 of word i / 32 is neuron i.
constexpr size_t DeviceSetWords(size_t count) { return (count + 31) / 32; }

// A matrix as the device keeps it: rows of n elements of a type, each as
// device::RowLayout packs it. Without rows: there is none.
struct DeviceMatrix {
  const std::byte* rows = nullptr;  // row r at rows + r * row_bytes
  size_t row_bytes = 0;             // a multiple of 16
  DType dtype = DType::kF32;
  uint32_t num_rows = 0;
  uint32_t n = 0;

  size_t num_bytes() const { return num_rows * row_bytes; }
  explicit operator bool() const { return rows != nullptr; }
};

// out = norm(x) * weight (+ bias), row by row; also of heads: x [T * H, K].
// KernelTable::rms_norm and layer_norm. out may be x.
struct NormArgs {
  NormKind kind = NormKind::kRms;
  float epsilon = 0.0f;
  uint32_t num_rows = 0;  // any number
  uint32_t n = 0;
  const float* x = nullptr;
  const float* weight = nullptr;  // [n]
  const float* bias = nullptr;    // [n], or null
  float* out = nullptr;
};

// out[t][r] = dot(row r, x[t]) + bias[r] (+ out[t][r], if adds). For weights in
// blocks x is rounded to 8 bits per 32 elements, as the host does it.
// Cost: reads the matrix once for all T.
struct GemvArgs {
  DeviceMatrix weights;
  const float* bias = nullptr;  // [num_rows], or null
  uint32_t num_tokens = 1;
  const float* x = nullptr;  // [T, n]
  bool adds = false;
  float* out = nullptr;  // [T, num_rows]
  // QuantizedRowsBytes(n, T); for F32, F16 and BF16 not needed.
  std::byte* scratch = nullptr;
};

// Memory for rows of x rounded to 8 bits; 0 elements: none.
constexpr size_t QuantizedRowsBytes(size_t n, size_t num_tokens) {
  // Quants, and for each 32 of them a scale and a sum for each half.
  const size_t blocks = (n + 31) / 32;
  return num_tokens * ((blocks * (32 + 4 + 4) + 15) / 16 * 16);
}

// Rotates heads in place, as KernelTable::rope: head h of row t by the row's
// angles.
struct RopeArgs {
  RopeKind kind = RopeKind::kNorm;
  uint32_t num_tokens = 1;
  uint32_t num_heads = 0;
  uint32_t head_width = 0;
  uint32_t num_pairs = 0;
  const float* cos = nullptr;  // [T, num_pairs]
  const float* sin = nullptr;
  float* heads = nullptr;  // [T, num_heads * head_width]
};

// Keys and values of one layer, in F16, in pages of kDevicePage positions that
// all layers of the device share: head by head K [KVH, kDevicePage, K] at
// k_offset of a page, V [KVH, kDevicePage, Kv] at v_offset. Offsets and
// page_bytes are multiples of 16, widths of 8, at most kDeviceMaxWidth.
inline constexpr uint32_t kDevicePage = 64;
inline constexpr uint32_t kDeviceMaxWidth = 256;
struct DeviceKv {
  std::byte* pages = nullptr;  // page p at pages + p * page_bytes
  size_t page_bytes = 0;
  size_t k_offset = 0;
  size_t v_offset = 0;
  uint32_t num_kv_heads = 0;
  uint32_t k_width = 0;
  uint32_t v_width = 0;
};

// Writes the rows' keys and values at their places, rounded to nearest even;
// what F16 cannot hold becomes NaN, so that it shows.
struct KvAppendArgs {
  DeviceKv kv;
  uint32_t num_tokens = 1;
  const uint32_t* places = nullptr;  // [T] page * kDevicePage + position in it
  const float* k = nullptr;          // [T, KVH * K]
  const float* v = nullptr;          // [T, KVH * Kv]
};

// Attention of generated rows with grouped heads: H is a multiple of KVH, head
// h reads KV head h / (H / KVH). Row t sees positions [first[t], counts[t]) of
// its own sequence, whose pages are page_table[t * table_stride + p /
// kDevicePage]. Positions are cut into pieces of kDevicePiece, each with a
// maximum and sums of its own, merged in their order (flash decoding).
// Cost: reads keys and values once for every 8 heads that share them.
inline constexpr uint32_t kDevicePiece = 256;
struct DecodeAttentionArgs {
  DeviceKv kv;
  uint32_t num_tokens = 1;
  uint32_t num_heads = 0;
  float scale = 1.0f;
  float logit_cap = 0.0f;      // 0: none
  uint32_t max_positions = 0;  // >= the largest of counts; decides the launch
  const float* q = nullptr;    // [T, H * K]
  const uint32_t* page_table = nullptr;
  uint32_t table_stride = 0;
  const uint32_t* counts = nullptr;  // [T], each > first
  const uint32_t* first = nullptr;   // [T], or null: 0
  float* out = nullptr;              // [T, H * Kv]
  float* partials = nullptr;         // DecodePartialFloats()
};
constexpr size_t DecodePartialFloats(size_t num_tokens, size_t num_heads,
                                     size_t v_width, size_t max_positions) {
  return num_tokens * num_heads *
         ((max_positions + kDevicePiece - 1) / kDevicePiece) * (v_width + 2);
}

// out = f(gate) * up, or f(up) without a gate: KernelTable::activate. out may
// be gate or up.
struct ActivateArgs {
  Activation activation = Activation::kRelu;
  float threshold = 0.0f;
  uint32_t count = 0;  // elements of all rows
  const float* gate = nullptr;
  const float* up = nullptr;
  float* out = nullptr;
};

// out += factor[t] * x, row by row; without factors 1. Experts' sums, and what
// goes onto the stream.
struct AddRowsScaledArgs {
  uint32_t num_tokens = 1;
  uint32_t n = 0;
  const float* x = nullptr;        // [T, n]
  const float* factors = nullptr;  // [T], or null
  float* out = nullptr;            // [T, n]
};

// A trained predictor: scores = down relu(up x + up_bias) + down_bias; neuron i
// is in row t's set unless its score is < threshold: NaN is. (PowerInfer 5.1.)
struct PredictArgs {
  DeviceMatrix up;                   // [R, D]
  DeviceMatrix down;                 // [F, R]
  const float* up_bias = nullptr;    // [R], or null
  const float* down_bias = nullptr;  // [F], or null
  float threshold = 0.0f;
  uint32_t num_tokens = 1;
  const float* x = nullptr;      // [T, D]
  float* hidden = nullptr;       // scratch [T, R]
  std::byte* scratch = nullptr;  // QuantizedRowsBytes(max(D, R), T)
  uint32_t* sets = nullptr;      // out [T, DeviceSetWords(F)]
};

// The part of a sparse FFN whose records are resident. For row t, over neurons
// that are in its set and have a slot, in ascending order:
//   gated   h = f(gate_i x + gate_bias_i) * (up_i x + up_bias_i)
//   plain   h = f(up_i x + up_bias_i)
//   out[t] = sum of h_i * down_i
// A neuron opens for a row unless |f(gate)| is 0 or less than rest_below, or,
// if that is negative, always; NaN opens. Others have h = 0, and their up and
// down are not read. In the plain form f(up) decides, and down is not read. Of
// kDRelu f(gate) is max(gate, 0). Record s lies at records + s * record_bytes:
// gate, up and down rows of n elements at their offsets. Cost: reads the gate
// rows of the union of the rows' sets once, and the rest of those that open;
// not what is not listed. (PowerInfer 5.4, field notes 2.)
struct SparseFfnArgs {
  Activation activation = Activation::kRelu;
  float threshold = 0.0f;  // FATReLU's
  float rest_below = 0.0f;
  uint32_t n = 0;            // D
  uint32_t num_neurons = 0;  // F
  uint32_t num_slots = 0;    // no list is longer
  uint32_t num_tokens = 1;
  const float* x = nullptr;        // [T, D]
  const uint32_t* sets = nullptr;  // [T, DeviceSetWords(F)]; null: all neurons
  const int32_t* slot_of = nullptr;  // [F]; negative: not resident
  const std::byte* records = nullptr;
  size_t record_bytes = 0;  // a multiple of 16
  bool gated = true;
  DType gate_dtype = DType::kF32;  // at 0 of a record
  DType up_dtype = DType::kF32;
  DType down_dtype = DType::kF32;
  size_t up_offset = 0;  // multiples of 16
  size_t down_offset = 0;
  const float* gate_bias = nullptr;  // [F] by neuron, or null
  const float* up_bias = nullptr;
  float* out = nullptr;  // [T, D]
  // [T, DeviceSetWords(F)] those with h != 0, or null.
  uint32_t* fired = nullptr;
  uint32_t* num_listed = nullptr;  // [1] of the union, or null
  std::byte* scratch = nullptr;    // SparseFfnScratchBytes()
};
// A list is summed in this many groups of neurons, and these in splits. Neuron
// i is in group i / 32 % 32 * 2 + i / 16 % 2, whatever else is listed.
inline constexpr uint32_t kDeviceGroups = 64;
inline constexpr uint32_t kDeviceSplits = 8;
constexpr size_t SparseFfnScratchBytes(size_t n, size_t num_slots,
                                       size_t num_tokens) {
  // x in 8 bits; where groups of the list begin; the list: neuron, slot and
  // which rows; hidden; partial sums.
  return QuantizedRowsBytes(n, num_tokens) +
         ((kDeviceGroups + 1) * sizeof(uint32_t) + 15) / 16 * 16 +
         (num_slots * 3 * sizeof(uint32_t) + 15) / 16 * 16 +
         (num_slots * num_tokens * sizeof(float) + 15) / 16 * 16 +
         kDeviceSplits * num_tokens * n * sizeof(float);
}

// out[t] = the index of the largest element of row t, the first of equals; NaN
// counts as largest.
struct ArgMaxArgs {
  uint32_t num_tokens = 1;
  uint32_t n = 0;
  const float* x = nullptr;  // [T, n]
  uint32_t* out = nullptr;   // [T]
};

using DeviceOp =
    std::variant<NormArgs, GemvArgs, RopeArgs, KvAppendArgs,
                 DecodeAttentionArgs, ActivateArgs, AddRowsScaledArgs,
                 PredictArgs, SparseFfnArgs, ArgMaxArgs>;

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_DEVICE_OPS_H_
