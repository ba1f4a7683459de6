#include "training/neuron_order.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/math.h"

namespace thermocline::training {
namespace {

constexpr size_t kMinGroupSize = 8;

// Of an expert's neurons, numbered from 0.
planner::FiringRows RowsOf(const Samples& samples, size_t first_neuron,
                           size_t num_neurons) {
  planner::FiringRows rows(num_neurons, samples.num_samples);
  for (size_t s = 0; s < samples.num_samples; ++s) {
    neuron::ForEachMember(samples.fired_of(s), first_neuron,
                          first_neuron + num_neurons,
                          [&](size_t i) { rows.Add(i - first_neuron, s); });
  }
  return rows;
}

}  // namespace

size_t OrderGroupSize(size_t ffn_width) {
  const size_t first =
      std::max(kMinGroupSize, CeilDiv(ffn_width, kMaxOrderGroups));
  for (size_t size = first; size <= kMaxGroupSize; ++size) {
    if (ffn_width % size == 0) return size;
  }
  return 1;
}

std::vector<uint32_t> OrderByHeat(const Neurons& neurons,
                                  std::span<const uint32_t> counts) {
  TC_CHECK(counts.size() == neurons.num_neurons);
  std::vector<uint32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0u);
  const size_t width = neurons.ffn_width();
  for (size_t first = 0; first < order.size(); first += width) {
    std::ranges::sort(
        std::span(order).subspan(first, width), [&](uint32_t a, uint32_t b) {
          return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
        });
  }
  return order;
}

Result<std::vector<uint32_t>> OrderTogether(const Samples& samples,
                                            std::span<const uint32_t> counts,
                                            size_t group_size,
                                            planner::Grouping grouping) {
  const size_t width = samples.ffn_width();
  TC_CHECK(group_size > 0 && width % group_size == 0 &&
           group_size <= kMaxGroupSize);
  const Samples some = samples.Thinned(kOrderSamples);
  const std::vector<uint32_t> by_heat = OrderByHeat(samples, counts);
  std::vector<uint32_t> order;
  order.reserve(by_heat.size());
  for (size_t first = 0; first < by_heat.size(); first += width) {
    std::vector<uint32_t> of_expert;
    for (size_t i = first; i < first + width; ++i) {
      of_expert.push_back(by_heat[i] - static_cast<uint32_t>(first));
    }
    TC_ASSIGN_OR_RETURN(
        const auto grouped,
        planner::GroupNeurons(RowsOf(some, first, width), of_expert,
                              std::span(&group_size, 1), grouping));
    for (const uint32_t neuron : grouped.front()) {
      order.push_back(neuron + static_cast<uint32_t>(first));
    }
  }
  return order;
}

double FiredPerGroup(const Samples& samples, std::span<const uint32_t> order,
                     size_t group_size) {
  TC_CHECK(order.size() == samples.num_neurons);
  std::vector<size_t> group_of(order.size());
  for (size_t place = 0; place < order.size(); ++place) {
    group_of[order[place]] = place / group_size;
  }
  std::vector<size_t> last_sample(CeilDiv(order.size(), group_size), SIZE_MAX);
  uint64_t num_fired = 0;
  uint64_t num_groups = 0;
  for (size_t s = 0; s < samples.num_samples; ++s) {
    neuron::ForEachMember(samples.fired_of(s), 0, order.size(),
                          [&](size_t neuron) {
                            ++num_fired;
                            size_t& last = last_sample[group_of[neuron]];
                            num_groups += last != s ? 1 : 0;
                            last = s;
                          });
  }
  if (num_groups == 0) return 0;
  return static_cast<double>(num_fired) / static_cast<double>(num_groups);
}

}  // namespace thermocline::training
