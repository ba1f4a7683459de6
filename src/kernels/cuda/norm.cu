#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"

namespace thermocline::cuda {
namespace {

// Rows up to this long, such as heads, have a warp each, others a block each.
constexpr uint32_t kMaxWarpRow = 1024;
constexpr int kRowsPerBlock = 4;  // of those that have a warp each
constexpr int kLongRowThreads = 256;

// Every thread gets the sum of all kThreads of its row, warp by warp in order.
template <int kThreads>
__device__ float RowSum(float value) {
  value = WarpSum(value);
  if constexpr (kThreads > kWarpLanes) {
    __shared__ float warp_sums[kThreads / kWarpLanes];
    __syncthreads();  // all have read the sums before
    if (threadIdx.x % kWarpLanes == 0) {
      warp_sums[threadIdx.x / kWarpLanes] = value;
    }
    __syncthreads();
    value = 0.0f;
    for (int w = 0; w < kThreads / kWarpLanes; ++w) value += warp_sums[w];
  }
  return value;
}

// 1 / sqrt(mean + epsilon). NaN for infinity, which finite elements can come
// to: 0 would make a row of zeros, in which nobody sees it.
__device__ float InverseRoot(float sum, uint32_t n, float epsilon) {
  const float mean = __fdiv_rn(sum, static_cast<float>(n));
  const float root = __fsqrt_rn(__fadd_rn(mean, epsilon));
  return __fadd_rn(__fdiv_rn(1.0f, root), __fmul_rn(sum, 0.0f));
}

// A row has the kThreads threads of one threadIdx.y. A thread writes only those
// elements that it alone reads: out may be x.
template <int kThreads>
__global__ void __launch_bounds__(kThreads == kWarpLanes
                                      ? kThreads * kRowsPerBlock
                                      : kThreads)
    Norm(const kernels::NormArgs a) {
  const uint32_t row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= a.num_rows) return;
  const float* x = a.x + static_cast<size_t>(row) * a.n;
  float* out = a.out + static_cast<size_t>(row) * a.n;
  float mean = 0.0f;
  if (a.kind == NormKind::kLayer) {
    float sum = 0.0f;
    for (uint32_t i = threadIdx.x; i < a.n; i += kThreads) sum += x[i];
    mean = __fdiv_rn(RowSum<kThreads>(sum), static_cast<float>(a.n));
  }
  float squares = 0.0f;
  for (uint32_t i = threadIdx.x; i < a.n; i += kThreads) {
    const float centred = __fadd_rn(x[i], -mean);
    squares = __fmaf_rn(centred, centred, squares);
  }
  const float scale = InverseRoot(RowSum<kThreads>(squares), a.n, a.epsilon);
  for (uint32_t i = threadIdx.x; i < a.n; i += kThreads) {
    const float value = __fmul_rn(__fadd_rn(x[i], -mean), scale);
    const float bias = a.bias == nullptr ? 0.0f : a.bias[i];
    out[i] = __fmaf_rn(value, a.weight[i], bias);
  }
}

}  // namespace

void Launch(const kernels::NormArgs& args, void* stream) {
  if (args.num_rows == 0 || args.n == 0) return;
  if (args.n <= kMaxWarpRow) {
    const uint32_t blocks = (args.num_rows + kRowsPerBlock - 1) / kRowsPerBlock;
    TC_LAUNCH((Norm<kWarpLanes>), dim3(blocks), dim3(kWarpLanes, kRowsPerBlock),
              0, stream, args);
  } else {
    TC_LAUNCH((Norm<kLongRowThreads>), dim3(args.num_rows),
              dim3(kLongRowThreads), 0, stream, args);
  }
}

}  // namespace thermocline::cuda
