// The stages of a sparse FFN, in their order, and what they leave for each
// other in the scratch memory.
#ifndef THERMOCLINE_KERNELS_CUDA_SPARSE_FFN_H_
#define THERMOCLINE_KERNELS_CUDA_SPARSE_FFN_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace thermocline::cuda {

// Entries of the list lie group by group (kernels::kDeviceGroups), in a group
// by ascending neuron.
struct SparseFfnScratch {
  std::byte* quants;  // x in 8 bits, if gate or up need it
  uint32_t* begins;   // [kDeviceGroups + 1] where groups begin; the end
  uint32_t* neurons;  // [num_slots]
  uint32_t* slots;    // [num_slots]
  uint32_t* rows;     // [num_slots] bit t: row t's set has it
  float* hidden;      // [T, num_slots]
  float* partials;    // [kDeviceSplits, T, n]
};

inline SparseFfnScratch ScratchOf(const kernels::SparseFfnArgs& args) {
  const size_t slots = args.num_slots;
  const auto words = [](size_t count) { return (count * 4 + 15) / 16 * 16; };
  SparseFfnScratch scratch;
  std::byte* at = args.scratch;
  scratch.quants = at;
  at += kernels::QuantizedRowsBytes(args.n, args.num_tokens);
  scratch.begins = reinterpret_cast<uint32_t*>(at);
  at += words(kernels::kDeviceGroups + 1);
  scratch.neurons = reinterpret_cast<uint32_t*>(at);
  scratch.slots = scratch.neurons + slots;
  scratch.rows = scratch.slots + slots;
  at += words(3 * slots);
  scratch.hidden = reinterpret_cast<float*>(at);
  at += words(slots * args.num_tokens);
  scratch.partials = reinterpret_cast<float*>(at);
  return scratch;
}

// The list, num_listed if wanted, and fired cleared.
void LaunchSparseList(const kernels::SparseFfnArgs& args, void* stream);
// hidden and fired.
void LaunchSparseHidden(const kernels::SparseFfnArgs& args, void* stream);
// out.
void LaunchSparseDown(const kernels::SparseFfnArgs& args, void* stream);

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_SPARSE_FFN_H_
