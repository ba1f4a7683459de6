#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dot_rows.h"
#include "kernels/cuda/sparse_ffn.h"

namespace thermocline::cuda {
namespace {

constexpr int kDownWarps = 8;  // of a block: a group of the list each
constexpr int kSumThreads = 128;
// Eight elements for each lane, in rows without bank conflicts.
constexpr int kMergeStride = kWarpLanes + 1;
static_assert(kernels::kDeviceGroups == kernels::kDeviceSplits * kDownWarps);

struct DownArgs {
  const std::byte* records;  // at the down row of the first
  size_t record_bytes;
  int n;
  int num_rows;
  const uint32_t* begins;
  const uint32_t* slots;
  const float* hidden;
  int stride;  // of a row of hidden
  float* partials;
};

// Adds entries [entry, entry + kBatch) of a group that ends at `last`: what a
// lane has of a down row is loaded for all before it is used. Rows of which
// nothing fired are not read.
template <DType kType, int kT, int kBatch>
__device__ void AddEntries(const DownArgs& a, int entry, int last, int word,
                           float (&sums)[kT][8]) {
  float h[kBatch][kT];
  float weights[kBatch][8];
#pragma unroll
  for (int k = 0; k < kBatch; ++k) {
    bool has_fired = false;
#pragma unroll
    for (int t = 0; t < kT; ++t) {
      h[k][t] = 0.0f;
      if (entry + k < last && t < a.num_rows) {
        h[k][t] = a.hidden[static_cast<size_t>(t) * a.stride + entry + k];
      }
      has_fired = has_fired || h[k][t] != 0.0f;
    }
    if (has_fired) {
      LoadEight<kType>(a.records + a.record_bytes * a.slots[entry + k], a.n,
                       word, weights[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < kBatch; ++k) {
#pragma unroll
    for (int t = 0; t < kT; ++t) {
      if (h[k][t] == 0.0f) continue;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        sums[t][j] = __fmaf_rn(h[k][t], weights[k][j], sums[t][j]);
      }
    }
  }
}

// 32 words of each down row, those of the groups of split blockIdx.y. Warps sum
// a group each; these are added in order.
template <DType kType, int kT>
__global__ void __launch_bounds__(kDownWarps* kWarpLanes, kT == 1 ? 3 : 2)
    SparseDown(DownArgs a) {
  __shared__ float merged[kDownWarps][8 * kMergeStride];
  constexpr int kBatch = kT == 1 ? 4 : 2;
  const int warp = threadIdx.x / kWarpLanes;
  const int lane = threadIdx.x % kWarpLanes;
  const int word = blockIdx.x * kWarpLanes + lane;
  const int group = blockIdx.y * kDownWarps + warp;
  float sums[kT][8] = {};
  if (word < DivideUp(a.n, 8)) {
    const int last = a.begins[group + 1];
    for (int i = a.begins[group]; i < last; i += kBatch) {
      AddEntries<kType, kT, kBatch>(a, i, last, word, sums);
    }
  }
  const int first_word = blockIdx.x * kWarpLanes;
  const int column =
      ColumnOf<kType>(first_word + threadIdx.x / 8, threadIdx.x % 8);
  const int place = threadIdx.x % 8 * kMergeStride + threadIdx.x / 8;
#pragma unroll
  for (int t = 0; t < kT; ++t) {
    if (t >= a.num_rows) break;
    __syncthreads();  // the row before is added up
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      merged[warp][j * kMergeStride + lane] = sums[t][j];
    }
    __syncthreads();
    float sum = merged[0][place];
    for (int w = 1; w < kDownWarps; ++w) sum += merged[w][place];
    if (column < a.n) {
      const size_t row = static_cast<size_t>(blockIdx.y) * a.num_rows + t;
      a.partials[row * a.n + column] = sum;
    }
  }
}

// out = the splits' sums, in order.
__global__ void SumSplits(const float* partials, int count, float* out) {
  const int i = blockIdx.x * kSumThreads + threadIdx.x;
  if (i >= count) return;
  float sum = partials[i];
  for (int s = 1; s < static_cast<int>(kernels::kDeviceSplits); ++s) {
    sum += partials[static_cast<size_t>(s) * count + i];
  }
  out[i] = sum;
}

}  // namespace

void LaunchSparseDown(const kernels::SparseFfnArgs& a, void* stream) {
  const SparseFfnScratch scratch = ScratchOf(a);
  const auto n = static_cast<int>(a.n);
  const auto num_tokens = static_cast<int>(a.num_tokens);
  const DownArgs down = {a.records + a.down_offset,
                         a.record_bytes,
                         n,
                         num_tokens,
                         scratch.begins,
                         scratch.slots,
                         scratch.hidden,
                         static_cast<int>(a.num_slots),
                         scratch.partials};
  ForTypeAndRows(a.down_dtype, a.num_tokens, [&]<DType kType, int kT>() {
    TC_LAUNCH(
        (SparseDown<kType, kT>),
        dim3(DivideUp(DivideUp(n, 8), kWarpLanes), kernels::kDeviceSplits),
        dim3(kDownWarps * kWarpLanes), 0, stream, down);
  });
  const int count = num_tokens * n;
  TC_LAUNCH(SumSplits, dim3(DivideUp(count, kSumThreads)), dim3(kSumThreads), 0,
            stream, scratch.partials, count, a.out);
}

}  // namespace thermocline::cuda
