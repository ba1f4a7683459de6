#include "kernels/cuda/launch.h"

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dot_rows.h"

namespace thermocline::cuda {
namespace {

constexpr int kPredictWarps = 8;
constexpr int kWordNeurons = 32;
static_assert(kPredictWarps >= int{kernels::kDeviceRows});

struct PredictDown {
  const std::byte* rows;
  size_t row_bytes;
  int num_neurons;
  const float* bias;
  float threshold;
  XRows x;
  uint32_t* sets;
};

// A block per word of the sets: its warps take the neurons in turn, and then a
// row of x each.
template <DType kType, int kT>
__global__ void __launch_bounds__(kPredictWarps* kWarpLanes, 3)
    Predict(PredictDown a) {
  __shared__ unsigned wanting[kWordNeurons];  // bit t: row t wants it
  const int warp = threadIdx.x / kWarpLanes;
  const int lane = threadIdx.x % kWarpLanes;
  const int first = blockIdx.x * kWordNeurons;
#pragma unroll 1
  for (int i = warp; i < kWordNeurons; i += kPredictWarps) {
    unsigned rows = 0;
    if (first + i < a.num_neurons) {
      float scores[kT];
      DotRow<kType, kT>(a.rows + a.row_bytes * (first + i), a.x, scores);
      const float bias = a.bias == nullptr ? 0.0f : a.bias[first + i];
#pragma unroll
      for (int t = 0; t < kT; ++t) {
        if (!(scores[t] + bias < a.threshold)) rows |= 1u << t;
      }
    }
    if (lane == 0) wanting[i] = rows;
  }
  __syncthreads();
  if (warp >= a.x.num_rows) return;
  const unsigned bits = __ballot_sync(kAllLanes, wanting[lane] >> warp & 1);
  if (lane == 0) a.sets[warp * gridDim.x + blockIdx.x] = bits;
}

}  // namespace

void LaunchPredict(const kernels::PredictArgs& a, void* stream) {
  if (a.down.num_rows == 0) return;
  kernels::GemvArgs up;
  up.weights = a.up;
  up.bias = a.up_bias;
  up.num_tokens = a.num_tokens;
  up.x = a.x;
  up.out = a.hidden;
  up.scratch = a.scratch;
  LaunchGemvRelu(up, stream);
  const int rank = static_cast<int>(a.down.n);
  const int num_tokens = static_cast<int>(a.num_tokens);
  if (!TakesFloats(a.down.dtype)) {
    LaunchQuantizeRows({rank, num_tokens, a.hidden, a.scratch}, stream);
  }
  const PredictDown down = {
      a.down.rows, a.down.row_bytes, static_cast<int>(a.down.num_rows),
      a.down_bias, a.threshold,      {a.hidden, a.scratch, rank, num_tokens},
      a.sets};
  ForTypeAndRows(a.down.dtype, a.num_tokens, [&]<DType kType, int kT>() {
    TC_LAUNCH((Predict<kType, kT>),
              dim3(DivideUp(down.num_neurons, kWordNeurons)),
              dim3(kPredictWarps * kWarpLanes), 0, stream, down);
  });
}

void Launch(const kernels::PredictArgs& args, void* stream) {
  LaunchPredict(args, stream);
}

}  // namespace thermocline::cuda
