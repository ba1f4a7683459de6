// Groups of neurons that fire together, for whoever moves neurons in groups:
// the graph of co-activations of KAIROX 5.2, cut greedily or by METIS.
#ifndef THERMOCLINE_PLANNER_NEURON_GROUPS_H_
#define THERMOCLINE_PLANNER_NEURON_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thermocline::planner {

// For which samples (tokens) each neuron of an FFN fired. N * S bits.
class FiringRows {
 public:
  FiringRows(size_t num_neurons, size_t num_samples);

  // Requires both in range.
  void Add(size_t neuron, size_t sample) {
    words_[neuron * num_words_ + sample / 64] |= uint64_t{1} << sample % 64;
  }

  size_t num_neurons() const { return num_neurons_; }
  int64_t Count(uint32_t neuron) const { return CountBoth(neuron, neuron); }
  // Samples for which both fired: w_ij of KAIROX 5.2.
  int64_t CountBoth(uint32_t a, uint32_t b) const;

 private:
  const uint64_t* row(uint32_t neuron) const {
    return words_.data() + neuron * num_words_;
  }

  size_t num_neurons_;
  size_t num_words_;
  std::vector<uint64_t> words_;
};

// Neurons that are looked at for a group at most.
inline constexpr size_t kMaxPartners = 1024;

// The neuron at each place, a permutation; neurons [g G, (g + 1) G) of it are a
// group, the last one has what is left. by_heat: [N] the neurons, those that
// fired most first. A group is the hottest that is left, with those of the
// kMaxPartners next hottest that fired for most of the samples for which the
// group's first ones did.
// Cost: N * kMaxPartners * S bits compared; 4096 samples: 0.35 s for 5632
// neurons, 1.3 s for 14336 (beside another program).
std::vector<uint32_t> GroupGreedily(const FiringRows& rows,
                                    std::span<const uint32_t> by_heat,
                                    size_t group_size);

// Edges of a neuron in the graph that METIS cuts: to those with whom it fired
// most, and of those who chose it. The whole graph has N^2.
inline constexpr size_t kMaxEdges = 48;

// Ways to find groups.
enum class Grouping : uint8_t { kGreedy, kMetis };
std::string_view NameOf(Grouping grouping);  // "greedy", "metis"
// kInvalidArgument: no such name.
Result<Grouping> ParseGrouping(std::string_view name);

// Whether METIS is installed (Debian's libmetis5), which is loaded when needed.
bool HasMetis();

// Likewise, cut so that the edges inside groups weigh most, as far as METIS
// finds; it keeps sizes only nearly, what is too many moves to groups with
// room where it is tied most. The hottest group first, in it the hottest
// neuron; the same every time. For each of some sizes.
// kUnsupported: METIS is not installed. Cost: N^2 / 2 * S bits compared, once
// for all sizes; then METIS for each.
Result<std::vector<std::vector<uint32_t>>> GroupByMetis(
    const FiringRows& rows, std::span<const uint32_t> by_heat,
    std::span<const size_t> group_sizes);

// By either, for each size; only METIS has errors.
Result<std::vector<std::vector<uint32_t>>> GroupNeurons(
    const FiringRows& rows, std::span<const uint32_t> by_heat,
    std::span<const size_t> group_sizes, Grouping grouping);

// Who fires together stays together: of the pairs that fired together, weighed
// by how often, the share that is in one group. 0 without any.
// Cost: N^2 / 2 * S bits compared.
double PairsKept(const FiringRows& rows, std::span<const uint32_t> order,
                 size_t group_size);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_NEURON_GROUPS_H_
