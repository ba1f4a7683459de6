#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/sparse_ffn.h"

namespace thermocline::cuda {
namespace {

constexpr int kListWarps = 32;
constexpr int kListThreads = kListWarps * kWarpLanes;
constexpr int kAtOnce = 4;  // words of a set whose loads are under way
constexpr unsigned kLowerHalf = 0xffff;
static_assert(kernels::kDeviceGroups == 2 * kListWarps);

struct ListArgs {
  const uint32_t* __restrict__ sets;
  const int32_t* __restrict__ slot_of;
  int num_neurons;
  int num_words;  // of a set
  int num_rows;
  uint32_t* __restrict__ begins;
  uint32_t* __restrict__ neurons;
  uint32_t* __restrict__ slots;
  uint32_t* __restrict__ rows;
  uint32_t* __restrict__ num_listed;
  uint32_t* __restrict__ fired;
};

// Of the neuron that is this lane's in a word: its slot and the rows that want
// it. Negative: not listed.
__device__ int LoadNeuron(const ListArgs& a, int word, unsigned* rows) {
  const int lane = threadIdx.x % kWarpLanes;
  const int neuron = word * kWarpLanes + lane;
  *rows = 0;
  if (neuron >= a.num_neurons) return -1;
  const int slot = a.slot_of[neuron];
  if (a.sets == nullptr) {
    *rows = (1u << a.num_rows) - 1;
    return slot;
  }
  for (int t = 0; t < a.num_rows; ++t) {
    const unsigned set = a.sets[static_cast<size_t>(t) * a.num_words + word];
    *rows |= (set >> lane & 1) << t;
  }
  return *rows == 0 ? -1 : slot;
}

// Calls take(neuron's word, slot, rows, ballot) for the words of this warp, of
// which each half is in a group of its own.
template <typename Take>
__device__ void ForEachWord(const ListArgs& a, const Take& take) {
  const int warp = threadIdx.x / kWarpLanes;
  for (int first = warp; first < a.num_words; first += kListWarps * kAtOnce) {
    int slots[kAtOnce];
    unsigned rows[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      slots[k] = LoadNeuron(a, first + k * kListWarps, &rows[k]);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const unsigned bits = __ballot_sync(kAllLanes, slots[k] >= 0);
      take(first + k * kListWarps, slots[k], rows[k], bits);
    }
  }
}

// One block: counts the groups, and puts them one behind the other.
__global__ void __launch_bounds__(kListThreads) MakeList(ListArgs a) {
  __shared__ int counts[kListWarps];
  const int warp = threadIdx.x / kWarpLanes;
  const int lane = threadIdx.x % kWarpLanes;
  for (int i = threadIdx.x; a.fired != nullptr && i < a.num_rows * a.num_words;
       i += kListThreads) {
    a.fired[i] = 0;
  }
  int lower = 0, both = 0;
  ForEachWord(a, [&](int, int, unsigned, unsigned bits) {
    lower += __popc(bits & kLowerHalf);
    both += __popc(bits);
  });
  if (lane == 0) counts[warp] = both;
  __syncthreads();
  const int count = counts[lane];
  const int total = WarpSum(count);
  // Where the next entry of this lane's half goes.
  int next = WarpSum(lane < warp ? count : 0);
  if (lane == 0) {
    a.begins[2 * warp] = next;
    a.begins[2 * warp + 1] = next + lower;
  }
  if (threadIdx.x == 0) {
    a.begins[2 * kListWarps] = total;
    if (a.num_listed != nullptr) *a.num_listed = total;
  }
  const bool is_lower = lane < 16;
  const unsigned half = is_lower ? kLowerHalf : ~kLowerHalf;
  if (!is_lower) next += lower;
  ForEachWord(a, [&](int word, int slot, unsigned rows, unsigned bits) {
    if (slot >= 0) {
      const int at = next + __popc(bits & half & ((1u << lane) - 1));
      a.neurons[at] = word * kWarpLanes + lane;
      a.slots[at] = slot;
      a.rows[at] = rows;
    }
    next += __popc(bits & half);
  });
}

}  // namespace

void LaunchSparseList(const kernels::SparseFfnArgs& args, void* stream) {
  const SparseFfnScratch scratch = ScratchOf(args);
  const auto num_neurons = static_cast<int>(args.num_neurons);
  const ListArgs list = {args.sets,
                         args.slot_of,
                         num_neurons,
                         (num_neurons + kWarpLanes - 1) / kWarpLanes,
                         static_cast<int>(args.num_tokens),
                         scratch.begins,
                         scratch.neurons,
                         scratch.slots,
                         scratch.rows,
                         args.num_listed,
                         args.fired};
  TC_LAUNCH(MakeList, dim3(1), dim3(kListThreads), 0, stream, list);
}

void Launch(const kernels::SparseFfnArgs& args, void* stream) {
  LaunchSparseList(args, stream);
  LaunchSparseHidden(args, stream);
  LaunchSparseDown(args, stream);
}

}  // namespace thermocline::cuda
