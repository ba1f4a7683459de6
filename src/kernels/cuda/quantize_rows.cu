#include "kernels/cuda/launch.h"

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "tensor/blocks.h"

namespace thermocline::cuda {
namespace {

constexpr int kQuantizeWarps = 4;

// A warp per block of 32 elements, of row blockIdx.y.
__global__ void QuantizeRows(const float* x, int n, std::byte* rows) {
  const int num_blocks = n / kBlock;
  const int block = blockIdx.x * kQuantizeWarps + threadIdx.x / kWarpLanes;
  const int lane = threadIdx.x % kWarpLanes;
  if (block >= num_blocks) return;
  const size_t stride = (static_cast<size_t>(num_blocks) * 40 + 15) / 16 * 16;
  std::byte* row = rows + blockIdx.y * stride;
  const float value =
      x[static_cast<size_t>(blockIdx.y) * n + block * kBlock + lane];
  // Magnitudes order as their bits do, NaN above infinity.
  int largest = __float_as_int(value) & 0x7fffffff;
  for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) {
    largest = max(largest, __shfl_xor_sync(kAllLanes, largest, distance));
  }
  const float scale = __fdiv_rn(__int_as_float(largest), 127.0f);
  int quant = 0;
  if (scale > 0.0f) {  // of infinity only 0 and NaN, which becomes 0
    // Only a subnormal and so inexact scale gets beyond the limit.
    quant = max(-127, min(127, __float2int_rn(__fdiv_rn(value, scale))));
  }
  int sum = quant;
  for (int distance = 8; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  }
  const int upper = __shfl_sync(kAllLanes, sum, 16);
  reinterpret_cast<int8_t*>(row)[block * kBlock + lane] =
      static_cast<int8_t>(quant);
  if (lane != 0) return;
  reinterpret_cast<float*>(row + n)[block] = scale;
  reinterpret_cast<int*>(row + n)[num_blocks + block] =
      (sum & 0xffff) | static_cast<int>(static_cast<unsigned>(upper) << 16);
}

}  // namespace

void LaunchQuantizeRows(const QuantizeRowsArgs& args, void* stream) {
  const int blocks = args.n / kBlock;
  if (blocks == 0 || args.num_rows == 0) return;
  TC_LAUNCH(QuantizeRows,
            dim3((blocks + kQuantizeWarps - 1) / kQuantizeWarps, args.num_rows),
            dim3(kQuantizeWarps * kWarpLanes), 0, stream, args.x, args.n,
            args.rows);
}

}  // namespace thermocline::cuda
