#include "training/neuron_order.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "base/math.h"

namespace thermocline::training {
namespace {

constexpr size_t kMinGroupSize = 8;

// For which samples each neuron of an expert fired, one bit a sample.
class FiringRows {
 public:
  FiringRows(const Samples& samples, size_t first_neuron, size_t num_neurons)
      : first_(first_neuron),
        num_words_(CeilDiv<size_t>(samples.num_samples, 64)),
        words_(num_neurons * num_words_) {
    for (size_t s = 0; s < samples.num_samples; ++s) {
      neuron::ForEachMember(
          samples.fired_of(s), first_, first_ + num_neurons, [&](size_t i) {
            words_[(i - first_) * num_words_ + s / 64] |= uint64_t{1} << s % 64;
          });
    }
  }

  // Samples for which both fired.
  int64_t CountBoth(uint32_t a, uint32_t b) const {
    const uint64_t* of_a = row(a);
    const uint64_t* of_b = row(b);
    int64_t count = 0;
    for (size_t w = 0; w < num_words_; ++w) {
      count += std::popcount(of_a[w] & of_b[w]);
    }
    return count;
  }

 private:
  const uint64_t* row(uint32_t neuron) const {
    return words_.data() + (neuron - first_) * num_words_;
  }

  size_t first_;
  size_t num_words_;
  std::vector<uint64_t> words_;
};

// Moves the group that begins with rest[0] from `rest`, the hottest first, to
// the end of `out`.
void TakeGroup(const FiringRows& rows, size_t group_size,
               std::vector<uint32_t>& rest, std::vector<uint32_t>& out) {
  constexpr int64_t kTaken = -1;
  const size_t num_partners = std::min(rest.size(), kMaxPartners);
  std::vector<int64_t> shared(num_partners);  // with the group so far
  size_t best = 0;
  for (size_t taken = 1;; ++taken) {
    out.push_back(rest[best]);
    shared[best] = kTaken;
    if (taken == group_size) break;
    const uint32_t newest = out.back();
    for (size_t i = 0; i < num_partners; ++i) {
      if (shared[i] != kTaken) shared[i] += rows.CountBoth(newest, rest[i]);
    }
    best =
        static_cast<size_t>(std::ranges::max_element(shared) - shared.begin());
  }
  size_t kept = 0;
  for (size_t i = 0; i < num_partners; ++i) {
    if (shared[i] != kTaken) rest[kept++] = rest[i];
  }
  rest.erase(rest.begin() + static_cast<ptrdiff_t>(kept),
             rest.begin() + static_cast<ptrdiff_t>(num_partners));
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

std::vector<uint32_t> OrderTogether(const Samples& samples,
                                    std::span<const uint32_t> counts,
                                    size_t group_size) {
  const size_t width = samples.ffn_width();
  TC_CHECK(group_size > 0 && width % group_size == 0 &&
           group_size <= kMaxGroupSize);
  const Samples some = samples.Thinned(kOrderSamples);
  const std::vector<uint32_t> by_heat = OrderByHeat(samples, counts);
  std::vector<uint32_t> order;
  order.reserve(by_heat.size());
  for (size_t first = 0; first < by_heat.size(); first += width) {
    const FiringRows rows(some, first, width);
    const auto begin = by_heat.begin() + static_cast<ptrdiff_t>(first);
    std::vector<uint32_t> rest(begin, begin + static_cast<ptrdiff_t>(width));
    while (!rest.empty()) TakeGroup(rows, group_size, rest, order);
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
