#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"

namespace thermocline::cuda {
namespace {

constexpr int kRopeThreads = 128;

// A thread per pair of a row, whose number is blockIdx.y.
__global__ void __launch_bounds__(kRopeThreads)
    Rope(const kernels::RopeArgs a) {
  const uint32_t index = blockIdx.x * kRopeThreads + threadIdx.x;
  if (index >= a.num_heads * a.num_pairs) return;
  const uint32_t head = index / a.num_pairs, pair = index % a.num_pairs;
  const size_t angle = static_cast<size_t>(blockIdx.y) * a.num_pairs + pair;
  const float cos = a.cos[angle], sin = a.sin[angle];
  const bool is_neox = a.kind == RopeKind::kNeox;
  float* first =
      a.heads +
      (static_cast<size_t>(blockIdx.y) * a.num_heads + head) * a.head_width +
      (is_neox ? pair : 2 * pair);
  float* second = first + (is_neox ? a.num_pairs : 1);
  const float x = *first, y = *second;
  *first = __fmaf_rn(x, cos, -__fmul_rn(y, sin));
  *second = __fmaf_rn(x, sin, __fmul_rn(y, cos));
}

}  // namespace

void Launch(const kernels::RopeArgs& args, void* stream) {
  const uint32_t count = args.num_heads * args.num_pairs;
  if (args.kind == RopeKind::kNone || count == 0) return;
  TC_LAUNCH(Rope,
            dim3((count + kRopeThreads - 1) / kRopeThreads, args.num_tokens),
            dim3(kRopeThreads), 0, stream, args);
}

}  // namespace thermocline::cuda
