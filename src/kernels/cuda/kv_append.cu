#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"

namespace thermocline::cuda {
namespace {

constexpr int kAppendThreads = 128;

// What F16 cannot hold is NaN, so that it shows; all NaN are one.
__device__ uint32_t HalfOrNan(float value) {
  const uint16_t half = F32ToF16(value);
  return (half & 0x7c00u) == 0x7c00u ? 0x7fffu : half;
}

// Two elements of a row's key or value, keys first. Row blockIdx.y.
__global__ void __launch_bounds__(kAppendThreads)
    KvAppend(const kernels::KvAppendArgs a) {
  const uint32_t k_pairs = a.kv.num_kv_heads * (a.kv.k_width / 2);
  const uint32_t v_pairs = a.kv.num_kv_heads * (a.kv.v_width / 2);
  uint32_t pair = blockIdx.x * kAppendThreads + threadIdx.x;
  if (pair >= k_pairs + v_pairs) return;
  const bool is_key = pair < k_pairs;
  if (!is_key) pair -= k_pairs;
  const uint32_t width = is_key ? a.kv.k_width : a.kv.v_width;
  const float* row = (is_key ? a.k : a.v) + static_cast<size_t>(blockIdx.y) *
                                                a.kv.num_kv_heads * width;
  const float2 value = reinterpret_cast<const float2*>(row)[pair];

  const uint32_t place = a.places[blockIdx.y];
  const uint32_t head = pair / (width / 2), i = pair % (width / 2) * 2;
  const size_t position = static_cast<size_t>(head) * kernels::kDevicePage +
                          place % kernels::kDevicePage;
  std::byte* page = a.kv.pages + place / kernels::kDevicePage * a.kv.page_bytes;
  uint16_t* halves = reinterpret_cast<uint16_t*>(
      page + (is_key ? a.kv.k_offset : a.kv.v_offset));
  *reinterpret_cast<uint32_t*>(halves + position * width + i) =
      HalfOrNan(value.x) | HalfOrNan(value.y) << 16;
}

}  // namespace

void Launch(const kernels::KvAppendArgs& args, void* stream) {
  const uint32_t pairs =
      args.kv.num_kv_heads * (args.kv.k_width + args.kv.v_width) / 2;
  if (pairs == 0) return;
  TC_LAUNCH(
      KvAppend,
      dim3((pairs + kAppendThreads - 1) / kAppendThreads, args.num_tokens),
      dim3(kAppendThreads), 0, stream, args);
}

}  // namespace thermocline::cuda
