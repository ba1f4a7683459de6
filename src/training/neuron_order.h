// An order of a layer's neurons in which those that fire together stand
// together, for whoever moves neurons in groups (KAIROX 5.2).
#ifndef THERMOCLINE_TRAINING_NEURON_ORDER_H_
#define THERMOCLINE_TRAINING_NEURON_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/neuron_groups.h"
#include "training/low_rank.h"

namespace thermocline::training {

// Groups of an FFN at most: as many as KAIROX ranks at a time.
inline constexpr size_t kMaxOrderGroups = 1024;

// Neurons of a group: the smallest divisor of F, of 8 to kMaxGroupSize, that
// makes at most kMaxOrderGroups of them; 1 if there is none.
inline constexpr size_t kMaxGroupSize = 64;
size_t OrderGroupSize(size_t ffn_width);

// The neuron at each place, a permutation: those that fired most often first,
// in equal cases as they lie; of a mixture, expert by expert. counts: [N].
std::vector<uint32_t> OrderByHeat(const Neurons& neurons,
                                  std::span<const uint32_t> counts);

// Likewise, but group by group (planner/neuron_groups.h, whose errors).
// group_size <= kMaxGroupSize, divides F. Looks at up to kOrderSamples of the
// samples. Memory: F * kOrderSamples bits.
inline constexpr size_t kOrderSamples = 4096;
Result<std::vector<uint32_t>> OrderTogether(
    const Samples& samples, std::span<const uint32_t> counts, size_t group_size,
    planner::Grouping grouping = planner::Grouping::kGreedy);

// Where a neuron of a group fires, how many of the group do, on average: 1 to
// group_size; 0 if nothing fired.
double FiredPerGroup(const Samples& samples, std::span<const uint32_t> order,
                     size_t group_size);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_NEURON_ORDER_H_
