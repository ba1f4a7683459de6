#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dot_rows.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/math.h"
#include "kernels/cuda/sparse_ffn.h"

namespace thermocline::cuda {
namespace {

constexpr int kHiddenWarps = 4;  // entries of a block

struct HiddenArgs {
  const std::byte* records;
  size_t record_bytes;
  size_t up_offset;
  XRows x;
  Activation activation;
  float threshold;
  float rest_below;
  bool gated;
  const float* gate_bias;
  const float* up_bias;
  const uint32_t* begins;
  const uint32_t* neurons;
  const uint32_t* slots;
  const uint32_t* rows;
  float* hidden;
  int stride;  // of a row of hidden
  uint32_t* fired;
  int fired_words;
};

// Gate and up may be of unlike types: then each has a launch of its own.
struct HiddenStages {
  bool gate;
  bool up;
};

__device__ inline float BiasOf(const float* bias, unsigned neuron) {
  return bias == nullptr ? 0.0f : bias[neuron];
}

__device__ inline float UpValue(const HiddenArgs& a, float value) {
  return a.activation == Activation::kDRelu && value < 0.0f ? 0.0f : value;
}

// The rows of an entry that do not rest, of which h is f(gate) or f(up). NaN
// does not rest.
template <int kT>
__device__ unsigned OpenRows(const HiddenArgs& a, unsigned rows,
                             const float (&h)[kT]) {
  unsigned open = 0;
#pragma unroll
  for (int t = 0; t < kT; ++t) {
    const float size = fabsf(h[t]);
    const bool rests =
        a.rest_below >= 0.0f && (size == 0.0f || size < a.rest_below);
    if (!rests) open |= 1u << t;
  }
  return open & rows;
}

// What the gate's launch left.
template <int kT>
__device__ void ReadHidden(const HiddenArgs& a, int entry, float (&h)[kT]) {
#pragma unroll
  for (int t = 0; t < kT; ++t) {
    const size_t at = static_cast<size_t>(t) * a.stride + entry;
    h[t] = t < a.x.num_rows ? a.hidden[at] : 0.0f;
  }
}

// The values, 0 where a row rests, and what fired.
template <int kT>
__device__ void StoreHidden(const HiddenArgs& a, HiddenStages stages, int entry,
                            unsigned neuron, unsigned open,
                            const float (&h)[kT]) {
#pragma unroll
  for (int t = 0; t < kT; ++t) {
    if (t >= a.x.num_rows) break;
    const float value = (open >> t & 1) != 0 || !stages.up ? h[t] : 0.0f;
    a.hidden[static_cast<size_t>(t) * a.stride + entry] = value;
    if (stages.up && a.fired != nullptr && value != 0.0f) {
      atomicOr(&a.fired[t * a.fired_words + neuron / 32], 1u << neuron % 32);
    }
  }
}

// A warp per entry of the list.
template <DType kType, int kT>
__global__ void __launch_bounds__(kHiddenWarps* kWarpLanes, 4)
    SparseHidden(HiddenArgs a, HiddenStages stages) {
  const int entry = blockIdx.x * kHiddenWarps + threadIdx.x / kWarpLanes;
  if (entry >= static_cast<int>(a.begins[kernels::kDeviceGroups])) return;
  const unsigned neuron = a.neurons[entry];
  const unsigned rows = a.rows[entry];
  const std::byte* record = a.records + a.record_bytes * a.slots[entry];
  float h[kT];
  unsigned open = 0;
  if (!stages.gate) {
    ReadHidden<kT>(a, entry, h);
    open = OpenRows<kT>(a, rows, h);
  }
  // The gate, then up; one of them; or, plain, up alone, which is opened as a
  // gate is. A loop, so that the product is in the program once.
#pragma unroll 1
  for (int stage = stages.gate ? 0 : 1; stage < 2; ++stage) {
    if (stage == 1 && (!stages.up || !a.gated || open == 0)) break;
    const bool is_up = stage == 1 || !a.gated;
    float dots[kT];
    DotRow<kType, kT>(is_up ? record + a.up_offset : record, a.x, dots);
    const float bias = BiasOf(is_up ? a.up_bias : a.gate_bias, neuron);
    if (stage == 0) {
#pragma unroll
      for (int t = 0; t < kT; ++t) {
        h[t] = Activated(a.activation, a.threshold, dots[t] + bias);
      }
      open = OpenRows<kT>(a, rows, h);
    } else {
#pragma unroll
      for (int t = 0; t < kT; ++t) h[t] *= UpValue(a, dots[t] + bias);
    }
  }
  __syncwarp();  // all have read what is replaced
  if (threadIdx.x % kWarpLanes != 0) return;
  StoreHidden<kT>(a, stages, entry, neuron, open, h);
}

void LaunchStages(const HiddenArgs& hidden, DType dtype, HiddenStages stages,
                  void* stream) {
  ForTypeAndRows(dtype, static_cast<uint32_t>(hidden.x.num_rows),
                 [&]<DType kType, int kT>() {
                   TC_LAUNCH((SparseHidden<kType, kT>),
                             dim3(DivideUp(hidden.stride, kHiddenWarps)),
                             dim3(kHiddenWarps * kWarpLanes), 0, stream, hidden,
                             stages);
                 });
}

}  // namespace

void LaunchSparseHidden(const kernels::SparseFfnArgs& a, void* stream) {
  if (a.num_slots == 0) return;
  const SparseFfnScratch scratch = ScratchOf(a);
  const auto n = static_cast<int>(a.n);
  const auto num_tokens = static_cast<int>(a.num_tokens);
  if (!TakesFloats(a.up_dtype) || (a.gated && !TakesFloats(a.gate_dtype))) {
    LaunchQuantizeRows({n, num_tokens, a.x, scratch.quants}, stream);
  }
  const HiddenArgs hidden = {
      a.records,      a.record_bytes,
      a.up_offset,    {a.x, scratch.quants, n, num_tokens},
      a.activation,   a.threshold,
      a.rest_below,   a.gated,
      a.gate_bias,    a.up_bias,
      scratch.begins, scratch.neurons,
      scratch.slots,  scratch.rows,
      scratch.hidden, static_cast<int>(a.num_slots),
      a.fired,        DivideUp(static_cast<int>(a.num_neurons), 32)};
  if (!a.gated || a.gate_dtype == a.up_dtype) {
    return LaunchStages(hidden, a.up_dtype, {true, true}, stream);
  }
  LaunchStages(hidden, a.gate_dtype, {true, false}, stream);
  LaunchStages(hidden, a.up_dtype, {false, true}, stream);
}

}  // namespace thermocline::cuda
