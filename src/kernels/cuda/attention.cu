#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/math.h"

namespace thermocline::cuda {
namespace {

using kernels::DecodeAttentionArgs;
using kernels::kDevicePage;
using kernels::kDevicePiece;

constexpr int kAttendThreads = 256;
static_assert(kAttendThreads / kWarpLanes >= 8, "a warp per head");
constexpr int kMergeThreads = 128;
// A key is read by this many lanes, 16 bytes each at a time.
constexpr int kKeyLanes = 8;
constexpr int kChunk = 8;         // elements in those 16 bytes
constexpr int kMaxKeyRounds = 4;  // of kKeyLanes chunks: widths up to 256
constexpr int kPiecePages = kDevicePiece / kDevicePage;
static_assert(kMaxKeyRounds * kKeyLanes * kChunk == kernels::kDeviceMaxWidth);
// What is the largest of no scores: unlike -infinity, -infinity less this is a
// number.
constexpr float kLowest = -0x1.fffffep127f;

// What a block does: query heads [head, head + num_heads) of a row, which all
// read kv_head, over the positions [begin, end) of a piece.
struct Part {
  uint32_t token, kv_head, head, num_heads, piece, begin, end;
};

template <int kHeads>
__device__ Part ThisPart(const DecodeAttentionArgs& a) {
  const uint32_t group = a.num_heads / a.kv.num_kv_heads;
  const uint32_t parts = (group + kHeads - 1) / kHeads;
  Part part;
  part.token = blockIdx.z;
  part.kv_head = blockIdx.y / parts;
  const uint32_t in_group = blockIdx.y % parts * kHeads;
  part.head = part.kv_head * group + in_group;
  part.num_heads = min(static_cast<uint32_t>(kHeads), group - in_group);
  part.piece = blockIdx.x;
  const uint32_t first = a.first == nullptr ? 0 : a.first[part.token];
  part.begin = max(part.piece * kDevicePiece, first);
  part.end = min((part.piece + 1) * kDevicePiece, a.counts[part.token]);
  return part;
}

// Where a position's key or value lies, `pages` being the piece's.
__device__ inline const uint16_t* RowAt(const DecodeAttentionArgs& a,
                                        const uint32_t* pages, size_t offset,
                                        uint32_t kv_head, uint32_t position,
                                        uint32_t width) {
  const uint32_t page = pages[position % kDevicePiece / kDevicePage];
  const size_t row =
      static_cast<size_t>(kv_head) * kDevicePage + position % kDevicePage;
  return reinterpret_cast<const uint16_t*>(a.kv.pages + page * a.kv.page_bytes +
                                           offset) +
         row * width;
}

__device__ inline float LowHalf(uint32_t halves) {
  return F16ToF32(static_cast<uint16_t>(halves & 0xffffu));
}
__device__ inline float HighHalf(uint32_t halves) {
  return F16ToF32(static_cast<uint16_t>(halves >> 16));
}

// sum += q . key over the eight elements of one chunk.
__device__ inline float DotChunk(const float (&key)[kChunk], const float* q,
                                 float sum) {
  const float4 low = reinterpret_cast<const float4*>(q)[0];
  const float4 high = reinterpret_cast<const float4*>(q)[1];
  sum = __fmaf_rn(key[0], low.x, sum);
  sum = __fmaf_rn(key[1], low.y, sum);
  sum = __fmaf_rn(key[2], low.z, sum);
  sum = __fmaf_rn(key[3], low.w, sum);
  sum = __fmaf_rn(key[4], high.x, sum);
  sum = __fmaf_rn(key[5], high.y, sum);
  sum = __fmaf_rn(key[6], high.z, sum);
  return __fmaf_rn(key[7], high.w, sum);
}

// The products of all heads with this thread's chunks of one key.
template <int kHeads>
__device__ void DotKey(const uint16_t* key, int num_chunks, const float* q,
                       float (&sums)[kHeads]) {
  const int lane = threadIdx.x % kKeyLanes;
  uint4 chunks[kMaxKeyRounds];  // all asked for before the first is used
#pragma unroll
  for (int r = 0; r < kMaxKeyRounds; ++r) {
    const int chunk = r * kKeyLanes + lane;
    chunks[r] = chunk < num_chunks ? reinterpret_cast<const uint4*>(key)[chunk]
                                   : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int r = 0; r < kMaxKeyRounds; ++r) {
    const int chunk = r * kKeyLanes + lane;
    if (chunk >= num_chunks) break;
    const uint4& c = chunks[r];
    const float values[kChunk] = {LowHalf(c.x),  HighHalf(c.x), LowHalf(c.y),
                                  HighHalf(c.y), LowHalf(c.z),  HighHalf(c.z),
                                  LowHalf(c.w),  HighHalf(c.w)};
#pragma unroll
    for (int g = 0; g < kHeads; ++g) {
      sums[g] =
          DotChunk(values, q + (g * num_chunks + chunk) * kChunk, sums[g]);
    }
  }
}

// scores[p % kDevicePiece][g], from q [kHeads, K] in shared memory. The lanes
// of a key end with the same sums; each stores one head's.
template <int kHeads>
__device__ void Scores(const DecodeAttentionArgs& a, const Part& part,
                       const uint32_t* pages, const float* q, float* scores) {
  constexpr uint32_t kKeys = kAttendThreads / kKeyLanes;
  const int lane = threadIdx.x % kKeyLanes;
  const int num_chunks = static_cast<int>(a.kv.k_width) / kChunk;
  for (uint32_t base = part.begin; base < part.end; base += kKeys) {
    const uint32_t position = base + threadIdx.x / kKeyLanes;
    const bool is_in = position < part.end;
    float sums[kHeads] = {};
    if (is_in) {
      DotKey<kHeads>(
          RowAt(a, pages, a.kv.k_offset, part.kv_head, position, a.kv.k_width),
          num_chunks, q, sums);
    }
    float mine = 0.0f;
#pragma unroll
    for (int g = 0; g < kHeads; ++g) {
      float sum = sums[g];
      for (int distance = kKeyLanes / 2; distance > 0; distance /= 2) {
        sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, distance));
      }
      if (lane == g) mine = sum;
    }
    if (!is_in || lane >= kHeads) continue;
    float score = __fmul_rn(mine, a.scale);
    if (a.logit_cap != 0.0f) {
      score = __fmul_rn(a.logit_cap, Tanh(__fdiv_rn(score, a.logit_cap)));
    }
    scores[position % kDevicePiece * kHeads + lane] = score;
  }
}

// A warp per head: e^(score - maximum) in place of the scores, and the maximum
// and the sum of those into the head's place in the partials. A NaN is not the
// maximum but makes the sum one.
template <int kHeads>
__device__ void Weights(const DecodeAttentionArgs& a, const Part& part,
                        float* scores, float* partial) {
  const uint32_t head = threadIdx.x / kWarpLanes;
  const uint32_t lane = threadIdx.x % kWarpLanes;
  if (head >= part.num_heads) return;
  float largest = kLowest;
  for (uint32_t p = part.begin + lane; p < part.end; p += kWarpLanes) {
    largest = fmaxf(largest, scores[p % kDevicePiece * kHeads + head]);
  }
  largest = WarpMax(largest);
  float sum = 0.0f;
  for (uint32_t p = part.begin + lane; p < part.end; p += kWarpLanes) {
    float& score = scores[p % kDevicePiece * kHeads + head];
    const float weight = Exp(__fadd_rn(score, -largest));
    score = weight;
    sum = __fadd_rn(sum, weight);
  }
  sum = WarpSum(sum);
  if (lane != 0) return;
  partial[a.kv.v_width] = largest;
  partial[a.kv.v_width + 1] = sum;
}

// A thread's four elements of the weighted values, over every num_rows-th
// position.
template <int kHeads>
__device__ void AddValues(const DecodeAttentionArgs& a, const Part& part,
                          const uint32_t* pages, const float* weights,
                          uint32_t row, uint32_t num_rows, uint32_t quad,
                          float (&sums)[kHeads][4]) {
#pragma unroll 4
  for (uint32_t p = part.begin + row; p < part.end; p += num_rows) {
    const uint16_t* value =
        RowAt(a, pages, a.kv.v_offset, part.kv_head, p, a.kv.v_width);
    const uint2 halves = reinterpret_cast<const uint2*>(value)[quad];
    const float v[4] = {LowHalf(halves.x), HighHalf(halves.x),
                        LowHalf(halves.y), HighHalf(halves.y)};
#pragma unroll
    for (int g = 0; g < kHeads; ++g) {
      const float weight = weights[p % kDevicePiece * kHeads + g];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[g][i] = __fmaf_rn(weight, v[i], sums[g][i]);
      }
    }
  }
}

// The sums of the block's rows of threads, in their order. `tile` is shared:
// [rows][kHeads][Kv].
template <int kHeads>
__device__ void SumRows(const DecodeAttentionArgs& a, const Part& part,
                        const float* tile, uint32_t num_rows, float* partials,
                        size_t partial_stride) {
  const uint32_t width = a.kv.v_width;
  for (uint32_t j = threadIdx.x; j < part.num_heads * width;
       j += kAttendThreads) {
    float sum = 0.0f;
    for (uint32_t row = 0; row < num_rows; ++row) {
      sum = __fadd_rn(sum, tile[row * kHeads * width + j]);
    }
    partials[j / width * partial_stride + j % width] = sum;
  }
}

// The piece's pages, and its heads' q; 0 for those that are absent.
template <int kHeads>
__device__ void ReadPart(const DecodeAttentionArgs& a, const Part& part,
                         uint32_t* pages, float* tile) {
  const uint32_t page = part.piece * kPiecePages + threadIdx.x;
  if (threadIdx.x < kPiecePages && page * kDevicePage < part.end) {
    pages[threadIdx.x] =
        a.page_table[static_cast<size_t>(part.token) * a.table_stride + page];
  }
  const float* q =
      a.q + (static_cast<size_t>(part.token) * a.num_heads + part.head) *
                a.kv.k_width;
  for (uint32_t j = threadIdx.x; j < kHeads * a.kv.k_width;
       j += kAttendThreads) {
    tile[j] = j < part.num_heads * a.kv.k_width ? q[j] : 0.0f;
  }
}

// One piece, for up to kHeads heads that read the same keys: those and the
// values are read once. Shared memory: scores, then q, later the sums.
template <int kHeads>
__global__ void __launch_bounds__(kAttendThreads)
    Attend(const DecodeAttentionArgs a) {
  __shared__ uint32_t pages[kPiecePages];
  TC_DYNAMIC_SHARED(float, scores);
  float* tile = scores + kDevicePiece * kHeads;
  const Part part = ThisPart<kHeads>(a);
  if (part.begin >= part.end) return;
  ReadPart<kHeads>(a, part, pages, tile);
  __syncthreads();
  Scores<kHeads>(a, part, pages, tile, scores);
  __syncthreads();
  const size_t stride = static_cast<size_t>(gridDim.x) * (a.kv.v_width + 2);
  float* partials =
      a.partials +
      (static_cast<size_t>(part.token) * a.num_heads + part.head) * stride +
      static_cast<size_t>(part.piece) * (a.kv.v_width + 2);
  Weights<kHeads>(a, part, scores,
                  partials + threadIdx.x / kWarpLanes * stride);
  __syncthreads();
  const uint32_t quads = a.kv.v_width / 4, num_rows = kAttendThreads / quads;
  const uint32_t row = threadIdx.x / quads, quad = threadIdx.x % quads;
  if (row < num_rows) {
    float sums[kHeads][4] = {};
    AddValues<kHeads>(a, part, pages, scores, row, num_rows, quad, sums);
#pragma unroll
    for (int g = 0; g < kHeads; ++g) {
      reinterpret_cast<float4*>(tile)[(row * kHeads + g) * quads + quad] =
          make_float4(sums[g][0], sums[g][1], sums[g][2], sums[g][3]);
    }
  }
  __syncthreads();
  SumRows<kHeads>(a, part, tile, num_rows, partials, stride);
}

// The pieces of a head, in their order. Head blockIdx.y of row blockIdx.z; a
// thread has one element.
__global__ void __launch_bounds__(kMergeThreads)
    MergePieces(const DecodeAttentionArgs a, uint32_t num_pieces) {
  const uint32_t i = blockIdx.x * kMergeThreads + threadIdx.x;
  if (i >= a.kv.v_width) return;
  const size_t head =
      static_cast<size_t>(blockIdx.z) * a.num_heads + blockIdx.y;
  const size_t stride = a.kv.v_width + size_t{2};
  const float* partials = a.partials + head * num_pieces * stride;
  const uint32_t first =
      a.first == nullptr ? 0 : a.first[blockIdx.z] / kDevicePiece;
  const uint32_t end = (a.counts[blockIdx.z] + kDevicePiece - 1) / kDevicePiece;
  float largest = kLowest;
  for (uint32_t p = first; p < end; ++p) {
    largest = fmaxf(largest, partials[p * stride + a.kv.v_width]);
  }
  float sum = 0.0f, weights = 0.0f;
  for (uint32_t p = first; p < end; ++p) {
    const float* partial = partials + p * stride;
    const float factor = Exp(__fadd_rn(partial[a.kv.v_width], -largest));
    weights = __fmaf_rn(factor, partial[a.kv.v_width + 1], weights);
    sum = __fmaf_rn(factor, partial[i], sum);
  }
  a.out[head * a.kv.v_width + i] = __fdiv_rn(sum, weights);
}

template <int kHeads>
void LaunchAttend(const DecodeAttentionArgs& a, uint32_t num_pieces,
                  void* stream) {
  const uint32_t group = a.num_heads / a.kv.num_kv_heads;
  const uint32_t parts = (group + kHeads - 1) / kHeads;
  const uint32_t rows = kAttendThreads / (a.kv.v_width / 4);
  const size_t q = size_t{kHeads} * a.kv.k_width;
  const size_t sums = size_t{rows} * kHeads * a.kv.v_width;
  const size_t floats = kDevicePiece * kHeads + (q > sums ? q : sums);
  TC_LAUNCH((Attend<kHeads>),
            dim3(num_pieces, a.kv.num_kv_heads * parts, a.num_tokens),
            dim3(kAttendThreads), floats * sizeof(float), stream, a);
}

}  // namespace

void Launch(const DecodeAttentionArgs& args, void* stream) {
  const uint32_t num_pieces =
      (args.max_positions + kDevicePiece - 1) / kDevicePiece;
  if (num_pieces == 0 || args.num_heads == 0) return;
  const uint32_t group = args.num_heads / args.kv.num_kv_heads;
  if (group == 1) {
    LaunchAttend<1>(args, num_pieces, stream);
  } else if (group == 2) {
    LaunchAttend<2>(args, num_pieces, stream);
  } else if (group <= 4) {
    LaunchAttend<4>(args, num_pieces, stream);
  } else {
    LaunchAttend<8>(args, num_pieces, stream);
  }
  TC_LAUNCH(MergePieces,
            dim3((args.kv.v_width + kMergeThreads - 1) / kMergeThreads,
                 args.num_heads, args.num_tokens),
            dim3(kMergeThreads), 0, stream, args, num_pieces);
}

}  // namespace thermocline::cuda
