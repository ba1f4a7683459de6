#include "residency/replay.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace thermocline::residency {
namespace {

template <class Value>
Value At(std::vector<Value> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const auto place = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return values[std::min(place, values.size() - 1)];
}

template <class Value>
double MeanOf(const std::vector<Value>& values) {
  return values.empty() ? 0.0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

}  // namespace

double Tally::hit_share() const {
  return accesses == 0
             ? 0.0
             : static_cast<double>(hits) / static_cast<double>(accesses);
}

Tally& Tally::operator+=(const Tally& other) {
  accesses += other.accesses;
  hits += other.hits;
  admissions += other.admissions;
  moves += other.moves;
  evictions += other.evictions;
  wasted += other.wasted;
  fetched_members += other.fetched_members;
  idle_members += other.idle_members;
  wasted_members += other.wasted_members;
  member_accesses += other.member_accesses;
  member_hits += other.member_hits;
  return *this;
}

Tally Replay::total() const {
  Tally total;
  for (const Tally& layer : layers) total += layer;
  return total;
}

uint32_t Replay::MissesAt(double share) const { return At(misses, share); }
double Replay::mean_misses() const { return MeanOf(misses); }
double Replay::SecondsAt(double share) const { return At(seconds, share); }
double Replay::mean_seconds() const { return MeanOf(seconds); }

Replayer::Layer::Layer(const LayerExtent& extent)
    : members(extent),
      used_words(neuron::WordsOf(members.num_members()), 0),
      is_unproven(extent.num_units, false) {}

neuron::NeuronSet Replayer::Layer::used() {
  return {used_words.data(), members.num_members()};
}

Replayer::Replayer(Policy* policy, const std::vector<LayerExtent>& layers,
                   ReplayOptions options)
    : policy_(policy), options_(std::move(options)) {
  replay_.layers.resize(layers.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    layers_.emplace_back(layers[l]);
    policy_->Initial(l);
  }
}

void Replayer::Add(TokenSets sets, Step step) {
  TC_CHECK(sets.size() == layers_.size());
  step_ = step;
  num_moves_ = 0;
  uint64_t num_misses = 0;
  double seconds = 0.0;
  for (size_t l = 0; l < sets.size(); ++l) {
    const uint64_t missed_before = TallyOf(l).misses();
    const PassCounts counts = Pass(l, sets[l]);
    num_misses += TallyOf(l).misses() - missed_before;
    if (step == Step::kLesson) continue;
    if (options_.seconds) seconds += options_.seconds(counts);
    if (options_.bottleneck) policy_->Tell(l, options_.bottleneck(counts));
  }
  if (step != Step::kPass) return;
  replay_.misses.push_back(static_cast<uint32_t>(num_misses));
  if (options_.seconds) replay_.seconds.push_back(seconds);
}

PassCounts Replayer::Pass(size_t layer_idx, std::span<const uint32_t> members) {
  Layer& layer = layers_[layer_idx];
  const neuron::NeuronSet used = layer.used();
  used.Clear();
  for (const uint32_t member : members) {
    TC_CHECK(member < used.num_neurons);
    used.Add(member);
  }
  const neuron::NeuronSet units = layer.members.UnitsOf(used);
  PassCounts counts = {.layer_idx = layer_idx};
  const std::vector<uint32_t> missed = CountUsed(layer_idx, units, counts);
  policy_->Observe(layer_idx, used);
  if (options_.misses == Misses::kRead) {
    Admit(layer_idx, units, missed, counts);
  }
  if (step_ != Step::kLesson) Propose(layer_idx, counts);
  return counts;
}

void Replayer::Admit(size_t layer_idx, const neuron::NeuronSet& units,
                     std::span<const uint32_t> missed, PassCounts& counts) {
  for (const uint32_t unit : missed) {
    const auto answer = policy_->Admit(layer_idx, unit, units);
    if (!answer.is_admitted) continue;
    counts.moves += Fetched(layer_idx, unit, answer.leaves);
    ++TallyOf(layer_idx).admissions;
  }
}

std::vector<uint32_t> Replayer::CountUsed(size_t layer_idx,
                                          const neuron::NeuronSet& units,
                                          PassCounts& counts) {
  Layer& layer = layers_[layer_idx];
  Tally& tally = TallyOf(layer_idx);
  std::vector<uint32_t> missed;
  units.ForEachIn(0, units.num_neurons, [&](size_t i) {
    const auto unit = static_cast<uint32_t>(i);
    const uint32_t num_used = layer.members.CountIn(unit, layer.used());
    ++tally.accesses;
    tally.member_accesses += num_used;
    layer.is_unproven[unit] = false;
    if (policy_->IsResident(layer_idx, unit)) {
      ++tally.hits;
      tally.member_hits += num_used;
      counts.hits += num_used;
    } else {
      missed.push_back(unit);
      counts.misses += num_used;
    }
  });
  return missed;
}

void Replayer::Propose(size_t layer_idx, PassCounts& counts) {
  // Whole moves by the layers until now, so that none is lost in rounding.
  const uint64_t most = options_.moves_per_token;
  const uint64_t num_layers = layers_.size();
  const uint64_t until_now = most / num_layers * (layer_idx + 1) +
                             most % num_layers * (layer_idx + 1) / num_layers;
  if (until_now <= num_moves_) return;
  for (const Policy::Move& move :
       policy_->Propose(layer_idx, until_now - num_moves_)) {
    Fetched(layer_idx, move.unit, move.leaves);
    ++TallyOf(layer_idx).moves;
    ++num_moves_;
    counts.moves += layers_[layer_idx].members.SizeOf(move.unit);
  }
}

uint32_t Replayer::Fetched(size_t layer_idx, uint32_t unit, uint32_t leaves) {
  Layer& layer = layers_[layer_idx];
  Tally& tally = TallyOf(layer_idx);
  const uint32_t size = layer.members.SizeOf(unit);
  const uint32_t idle = size - layer.members.CountIn(unit, layer.used());
  tally.fetched_members += size;
  tally.idle_members += idle;
  layer.is_unproven[unit] = true;
  if (leaves == kNobody) return idle;
  ++tally.evictions;
  if (layer.is_unproven[leaves]) {
    ++tally.wasted;
    tally.wasted_members += layer.members.SizeOf(leaves);
  }
  layer.is_unproven[leaves] = false;
  return idle;
}

}  // namespace thermocline::residency
