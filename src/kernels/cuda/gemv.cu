#include "kernels/cuda/launch.h"

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dot_rows.h"

namespace thermocline::cuda {
namespace {

constexpr int kGemvWarps = 4;  // rows of a block

struct GemvRows {
  const std::byte* rows;
  size_t row_bytes;
  int num_rows;
};
struct GemvEnd {
  const float* bias;
  bool adds;
  bool is_relu;
};

// A warp per row.
template <DType kType, int kT>
__global__ void __launch_bounds__(kGemvWarps* kWarpLanes, 8)
    Gemv(GemvRows weights, XRows x, GemvEnd end, float* out) {
  const int row = blockIdx.x * kGemvWarps + threadIdx.x / kWarpLanes;
  if (row >= weights.num_rows) return;
  float sums[kT];
  DotRow<kType, kT>(weights.rows + weights.row_bytes * row, x, sums);
  if (threadIdx.x % kWarpLanes != 0) return;
  const float bias = end.bias == nullptr ? 0.0f : end.bias[row];
#pragma unroll
  for (int t = 0; t < kT; ++t) {
    if (t >= x.num_rows) break;
    float value = sums[t] + bias;
    float* place = out + static_cast<size_t>(t) * weights.num_rows + row;
    if (end.adds) value += *place;
    if (end.is_relu && value < 0.0f) value = 0.0f;
    *place = value;
  }
}

void LaunchWithEnd(const kernels::GemvArgs& a, const GemvEnd& end,
                   void* stream) {
  const int n = static_cast<int>(a.weights.n);
  const int num_tokens = static_cast<int>(a.num_tokens);
  const GemvRows weights = {a.weights.rows, a.weights.row_bytes,
                            static_cast<int>(a.weights.num_rows)};
  if (weights.num_rows == 0) return;
  if (!TakesFloats(a.weights.dtype)) {
    LaunchQuantizeRows({n, num_tokens, a.x, a.scratch}, stream);
  }
  const XRows x = {a.x, a.scratch, n, num_tokens};
  ForTypeAndRows(a.weights.dtype, a.num_tokens, [&]<DType kType, int kT>() {
    TC_LAUNCH((Gemv<kType, kT>), dim3(DivideUp(weights.num_rows, kGemvWarps)),
              dim3(kGemvWarps * kWarpLanes), 0, stream, weights, x, end, a.out);
  });
}

}  // namespace

void LaunchGemv(const kernels::GemvArgs& args, void* stream) {
  LaunchWithEnd(args, {args.bias, args.adds, false}, stream);
}

void LaunchGemvRelu(const kernels::GemvArgs& args, void* stream) {
  LaunchWithEnd(args, {args.bias, args.adds, true}, stream);
}

void Launch(const kernels::GemvArgs& args, void* stream) {
  LaunchGemv(args, stream);
}

bool CanLaunch(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

}  // namespace thermocline::cuda
