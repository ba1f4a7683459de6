#include "planner/neuron_groups.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/math.h"
#include "base/quote.h"

namespace thermocline::planner {
namespace {

// Moves the group that begins with rest[0] from `rest`, the hottest first, to
// the end of `out`.
void TakeGroup(const FiringRows& rows, size_t group_size,
               std::vector<uint32_t>& rest, std::vector<uint32_t>& out) {
  constexpr int64_t kTaken = -1;
  const size_t num_partners = std::min(rest.size(), kMaxPartners);
  const size_t size = std::min(group_size, rest.size());
  std::vector<int64_t> shared(num_partners);  // with the group so far
  size_t best = 0;
  for (size_t taken = 1;; ++taken) {
    out.push_back(rest[best]);
    shared[best] = kTaken;
    if (taken == size) break;
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

FiringRows::FiringRows(size_t num_neurons, size_t num_samples)
    : num_neurons_(num_neurons),
      num_words_(CeilDiv<size_t>(num_samples, 64)),
      words_(num_neurons * num_words_) {}

int64_t FiringRows::CountBoth(uint32_t a, uint32_t b) const {
  const uint64_t* of_a = row(a);
  const uint64_t* of_b = row(b);
  int64_t count = 0;
  for (size_t w = 0; w < num_words_; ++w) {
    count += std::popcount(of_a[w] & of_b[w]);
  }
  return count;
}

std::vector<uint32_t> GroupGreedily(const FiringRows& rows,
                                    std::span<const uint32_t> by_heat,
                                    size_t group_size) {
  TC_CHECK(group_size > 0 && group_size <= kMaxPartners &&
           by_heat.size() == rows.num_neurons());
  std::vector<uint32_t> rest(by_heat.begin(), by_heat.end());
  std::vector<uint32_t> order;
  order.reserve(rest.size());
  while (!rest.empty()) TakeGroup(rows, group_size, rest, order);
  return order;
}

std::string_view NameOf(Grouping grouping) {
  return grouping == Grouping::kGreedy ? "greedy" : "metis";
}

Result<Grouping> ParseGrouping(std::string_view name) {
  for (const Grouping grouping : {Grouping::kGreedy, Grouping::kMetis}) {
    if (NameOf(grouping) == name) return grouping;
  }
  return Fail(ErrorCode::kInvalidArgument, "{} is not one of greedy, metis",
              Quote(name));
}

Result<std::vector<std::vector<uint32_t>>> GroupNeurons(
    const FiringRows& rows, std::span<const uint32_t> by_heat,
    std::span<const size_t> group_sizes, Grouping grouping) {
  if (grouping == Grouping::kMetis) {
    return GroupByMetis(rows, by_heat, group_sizes);
  }
  std::vector<std::vector<uint32_t>> orders;
  for (const size_t size : group_sizes) {
    orders.push_back(GroupGreedily(rows, by_heat, size));
  }
  return orders;
}

double PairsKept(const FiringRows& rows, std::span<const uint32_t> order,
                 size_t group_size) {
  TC_CHECK(group_size > 0 && order.size() == rows.num_neurons());
  int64_t kept = 0;
  int64_t all = 0;
  for (size_t a = 0; a < order.size(); ++a) {
    for (size_t b = a + 1; b < order.size(); ++b) {
      const int64_t both = rows.CountBoth(order[a], order[b]);
      all += both;
      if (a / group_size == b / group_size) kept += both;
    }
  }
  return all == 0 ? 0.0 : static_cast<double>(kept) / static_cast<double>(all);
}

}  // namespace thermocline::planner
