#include "residency/replay.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace thermocline::residency {

double Tally::hit_share() const {
  return accesses == 0
             ? 0.0
             : static_cast<double>(hits) / static_cast<double>(accesses);
}

Tally& Tally::operator+=(const Tally& other) {
  accesses += other.accesses;
  hits += other.hits;
  admissions += other.admissions;
  evictions += other.evictions;
  wasted += other.wasted;
  return *this;
}

Tally Replay::total() const {
  Tally total;
  for (const Tally& layer : layers) total += layer;
  return total;
}

uint32_t Replay::MissesAt(double share) const {
  if (misses.empty()) return 0;
  std::vector<uint32_t> sorted = misses;
  std::ranges::sort(sorted);
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto place = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(place, sorted.size() - 1)];
}

double Replay::mean_misses() const {
  return misses.empty() ? 0.0
                        : std::accumulate(misses.begin(), misses.end(), 0.0) /
                              static_cast<double>(misses.size());
}

Replayer::Replayer(Policy* policy, const std::vector<LayerExtent>& layers)
    : policy_(policy) {
  replay_.layers.resize(layers.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    const size_t num_units = layers[l].num_units;
    num_units_.push_back(num_units);
    used_words_.emplace_back(neuron::WordsOf(num_units), 0);
    is_unproven_.emplace_back(num_units, false);
    policy_->Initial(l);
  }
}

void Replayer::Add(TokenSets sets) {
  TC_CHECK(sets.size() == replay_.layers.size());
  uint64_t num_misses = 0;
  std::vector<uint32_t> missed;
  for (size_t l = 0; l < sets.size(); ++l) {
    const neuron::NeuronSet used = {used_words_[l].data(), num_units_[l]};
    used.Clear();
    missed.clear();
    for (const uint32_t unit : sets[l]) {
      TC_CHECK(unit < num_units_[l]);
      used.Add(unit);
      is_unproven_[l][unit] = false;
      if (!policy_->IsResident(l, unit)) missed.push_back(unit);
    }
    replay_.layers[l].accesses += sets[l].size();
    replay_.layers[l].hits += sets[l].size() - missed.size();
    num_misses += missed.size();
    policy_->Observe(l, used);
    for (const uint32_t unit : missed) Admit(l, unit, used);
  }
  replay_.misses.push_back(static_cast<uint32_t>(num_misses));
}

void Replayer::Admit(size_t layer_idx, uint32_t unit,
                     const neuron::NeuronSet& used) {
  const Policy::Answer answer = policy_->Admit(layer_idx, unit, used);
  if (!answer.is_admitted) return;
  Tally& tally = replay_.layers[layer_idx];
  ++tally.admissions;
  is_unproven_[layer_idx][unit] = true;
  if (answer.leaves == kNobody) return;
  ++tally.evictions;
  if (is_unproven_[layer_idx][answer.leaves]) ++tally.wasted;
  is_unproven_[layer_idx][answer.leaves] = false;
}

}  // namespace thermocline::residency
