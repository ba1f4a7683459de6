#include "neuron/dynamics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "neuron/neuron_set.h"
#include "neuron/profile.h"

namespace thermocline::neuron {
namespace {

constexpr uint8_t kIsHot = 0x80;  // else a tenth

std::optional<double> Share(uint64_t part, uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

// [U] the tenth of each unit, with kIsHot.
std::vector<uint8_t> HeatsOf(const std::vector<uint32_t>& counts) {
  std::vector<uint32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
  });
  const uint32_t hot_from = HotFrom(counts);
  std::vector<uint8_t> heats(counts.size());
  for (size_t place = 0; place < order.size(); ++place) {
    const uint32_t unit = order[place];
    heats[unit] = static_cast<uint8_t>(place * kHeatTenths / order.size());
    if (counts[unit] >= hot_from) heats[unit] |= kIsHot;
  }
  return heats;
}

}  // namespace

uint32_t HotFrom(std::span<const uint32_t> counts) {
  if (counts.empty()) return 1;
  std::vector<uint32_t> sorted(counts.begin(), counts.end());
  const auto num_hot = static_cast<size_t>(
      std::ceil(kHotShare * static_cast<double>(sorted.size())));
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(num_hot) - 1;
  std::ranges::nth_element(sorted, last, std::greater<>());
  return std::max(*last, 1u);
}

void ActiveMoments::Add(uint32_t num_active) {
  const auto value = static_cast<double>(num_active);
  ++num_tokens;
  sum += value;
  sum_squares += value * value;
  most = std::max(most, num_active);
}

double ActiveMoments::mean() const {
  return num_tokens == 0 ? 0.0 : sum / static_cast<double>(num_tokens);
}

double ActiveMoments::deviation() const {
  if (num_tokens == 0) return 0.0;
  const double mean_square = sum_squares / static_cast<double>(num_tokens);
  // Rounding may leave a difference slightly below 0.
  return std::sqrt(std::max(mean_square - mean() * mean(), 0.0));
}

std::optional<double> Recurrence::at(size_t offset) const {
  return Share(num_again[offset - 1], num_pairs[offset - 1]);
}

std::optional<double> Recurrence::by_chance() const {
  if (num_fired == 0) return std::nullopt;
  return sum_squared_counts /
         (static_cast<double>(num_fired) * static_cast<double>(num_tokens));
}

// Tokens stay: every layer sees the same.
void Recurrence::Add(const Recurrence& other) {
  for (size_t d = 0; d < kMaxOffset; ++d) {
    num_pairs[d] += other.num_pairs[d];
    num_again[d] += other.num_again[d];
  }
  num_fired += other.num_fired;
  sum_squared_counts += other.sum_squared_counts;
  num_tokens = std::max(num_tokens, other.num_tokens);
}

DynamicsBuilder::DynamicsBuilder(std::span<const std::vector<uint32_t>> counts)
    : layers_(counts.size()), pasts_(counts.size()) {
  for (size_t l = 0; l < counts.size(); ++l) {
    heats_.push_back(HeatsOf(counts[l]));
    pasts_[l].fired_at.resize(counts[l].size());
    for (size_t unit = 0; unit < counts[l].size(); ++unit) {
      const uint8_t heat = heats_[l][unit];
      const auto count = static_cast<double>(counts[l][unit]);
      layers_[l].num_hot += (heat & kIsHot) != 0 ? 1 : 0;
      layers_[l].tenths[heat & ~kIsHot].sum_squared_counts += count * count;
    }
  }
}

void DynamicsBuilder::BeginText() {
  for (Past& past : pasts_) {
    std::ranges::fill(past.fired_at, uint8_t{0});
    past.num_tokens = 0;
  }
}

// Of those that fired before and now have a token so much later.
void DynamicsBuilder::CountPairs(LayerDynamics& layer, const Past& past) const {
  for (size_t d = 1; d <= kMaxOffset && d <= past.num_tokens; ++d) {
    const auto& actives = past.actives[(past.num_tokens - d) % kMaxOffset];
    for (size_t k = 0; k < kHeatTenths; ++k) {
      layer.tenths[k].num_pairs[d - 1] += actives[k];
    }
  }
}

ActiveCounts DynamicsBuilder::Add(size_t layer_idx,
                                  std::span<const uint32_t> fired) {
  LayerDynamics& layer = layers_[layer_idx];
  Past& past = pasts_[layer_idx];
  const std::vector<uint8_t>& heats = heats_[layer_idx];
  TC_CHECK(fired.empty() || fired.back() < heats.size());
  CountPairs(layer, past);
  ActiveCounts active;
  size_t num_both = 0;
  std::array<uint32_t, kHeatTenths> actives = {};
  for (const uint32_t unit : fired) {
    const size_t tenth = heats[unit] & ~kIsHot;
    Recurrence& recurrence = layer.tenths[tenth];
    const uint8_t before = past.fired_at[unit];
    num_both += before & 1;
    for (uint8_t bits = before; bits != 0; bits &= bits - 1) {
      ++recurrence.num_again[static_cast<size_t>(std::countr_zero(bits))];
    }
    ++((heats[unit] & kIsHot) != 0 ? active.hot : active.cold);
    ++recurrence.num_fired;
    ++actives[tenth];
  }
  const auto jaccard = [&](size_t both, size_t other, Mean& mean) {
    const auto share = Share(both, fired.size() + other - both);
    if (share) mean.Add(*share);
  };
  if (past.num_tokens > 0) jaccard(num_both, past.num_last, layer.jaccard);
  jaccard(active.hot, layer.num_hot, layer.jaccard_with_hot);
  layer.hot.Add(active.hot);
  layer.cold.Add(active.cold);
  for (uint8_t& bits : past.fired_at) bits = static_cast<uint8_t>(bits << 1);
  for (const uint32_t unit : fired) past.fired_at[unit] |= 1;
  past.actives[past.num_tokens++ % kMaxOffset] = actives;
  past.num_last = fired.size();
  for (Recurrence& tenth : layer.tenths) ++tenth.num_tokens;
  return active;
}

void Naming::Add(std::span<const uint32_t> named,
                 std::span<const uint32_t> fired) {
  num_fired += fired.size();
  num_named += named.size();
  num_both += CountBoth(named, fired);
}

void Naming::Add(const Naming& other) {
  num_fired += other.num_fired;
  num_named += other.num_named;
  num_both += other.num_both;
}

std::optional<double> Naming::recall() const {
  return Share(num_both, num_fired);
}
std::optional<double> Naming::precision() const {
  return Share(num_both, num_named);
}

}  // namespace thermocline::neuron
