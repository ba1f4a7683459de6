#include "residency/bounds.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "residency/layered_policy.h"
#include "residency/makers.h"
#include "residency/ranked_residents.h"
#include "residency/unit_heap.h"
#include "residency/unit_members.h"

namespace thermocline::residency {
namespace {

constexpr uint32_t kNever = UINT32_MAX;

// A layer's units, token by token.
class UnitUses {
 public:
  UnitUses(const Recording& recording, size_t layer_idx,
           const LayerExtent& layer)
      : recording_(recording), layer_idx_(layer_idx), members_(layer) {}

  size_t num_tokens() const { return recording_.num_tokens(); }
  size_t num_units() const { return members_.num_units(); }

  // Calls f(unit) for each unit of the token, ascending.
  template <class Function>
  void ForEach(size_t token_idx, Function f) const {
    uint32_t last = kNobody;
    for (const uint32_t member : recording_.Used(layer_idx_, token_idx)) {
      TC_CHECK(member < members_.num_members());
      const uint32_t unit = members_.UnitOf(member);
      if (unit != last) f(unit);
      last = unit;
    }
  }

  // [num_units] how often each is used by the tokens [begin, end).
  std::vector<float> Count(size_t begin, size_t end) const {
    std::vector<float> counts(num_units(), 0.0f);
    for (size_t t = begin; t < std::min(end, num_tokens()); ++t) {
      ForEach(t, [&](uint32_t unit) { counts[unit] += 1.0f; });
    }
    return counts;
  }

 private:
  const Recording& recording_;
  size_t layer_idx_;
  UnitMembers members_;
};

using AllUses = std::deque<UnitUses>;  // [L]

AllUses UsesOf(const Recording& recording,
               const std::vector<LayerExtent>& layers) {
  TC_CHECK(layers.size() == recording.num_layers());
  AllUses uses;
  for (size_t l = 0; l < layers.size(); ++l) {
    uses.emplace_back(recording, l, layers[l]);
  }
  return uses;
}

// The extents with other frequencies, [L][num_units], which they point to.
std::vector<LayerExtent> WithFrequencies(
    std::vector<LayerExtent> layers,
    const std::vector<std::vector<float>>& frequencies) {
  for (size_t l = 0; l < layers.size(); ++l) {
    layers[l].frequency = frequencies[l];
  }
  return layers;
}

Replay ReplayOf(Policy& policy, const Recording& recording,
                const std::vector<LayerExtent>& layers, ReplayOptions options) {
  options.bottleneck = {};
  Replayer replayer(&policy, layers, std::move(options));
  std::vector<std::vector<uint32_t>> sets(layers.size());
  for (size_t t = 0; t < recording.num_tokens(); ++t) {
    for (size_t l = 0; l < layers.size(); ++l) {
      const auto used = recording.Used(l, t);
      sets[l].assign(used.begin(), used.end());
    }
    replayer.Add(sets);
  }
  return replayer.replay();
}

// One layer under Belady's rule.
class BeladyLayer {
 public:
  BeladyLayer(const LayerExtent& extent, size_t layer_idx, const AllUses& uses)
      : next_use_(extent.num_units, kNever),
        set_(extent),
        residents_(extent.num_units) {
    FindNextUses(uses[layer_idx]);
  }

  void Begin(uint32_t unit) {
    set_.Add(unit);
    residents_.Push(unit, next_use_[unit]);
  }

  void Observe(const neuron::NeuronSet& used) {
    used.ForEachIn(0, used.num_neurons, [this](size_t i) {
      const auto unit = static_cast<uint32_t>(i);
      next_use_[unit] = use_after_[num_seen_++];
      if (set_.Has(unit)) residents_.Set(unit, next_use_[unit]);
    });
  }

  // Who is never used again is not admitted. Who is may still leave unused, for
  // somebody who is used sooner.
  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& /*pinned*/) {
    const uint32_t last = residents_.first().unit;  // always full
    if (next_use_[last] <= next_use_[unit]) return {};
    Drop(last);
    Begin(unit);
    return {true, last};
  }

  void Drop(uint32_t unit) {
    residents_.Remove(unit);
    set_.Remove(unit);
  }
  std::vector<Policy::Move> Propose(size_t /*most*/) { return {}; }
  const ResidentSet& residents() const { return set_; }

  // The sooner the first use, the greater; tokens beyond 2^24 are alike.
  static std::vector<float> Frequencies(const UnitUses& uses) {
    std::vector<float> frequency(uses.num_units(), 0.0f);
    for (size_t t = uses.num_tokens(); t-- > 0;) {
      uses.ForEach(t, [&](uint32_t unit) {
        frequency[unit] = static_cast<float>(uses.num_tokens() - t);
      });
    }
    return frequency;
  }

 private:
  // From the end: use_after_ of each access, and at last next_use_ of the
  // start.
  void FindNextUses(const UnitUses& uses) {
    for (size_t t = uses.num_tokens(); t-- > 0;) {
      const size_t first = use_after_.size();
      uses.ForEach(t, [&](uint32_t unit) {
        use_after_.push_back(next_use_[unit]);
        next_use_[unit] = static_cast<uint32_t>(t);
      });
      std::reverse(use_after_.begin() + static_cast<ptrdiff_t>(first),
                   use_after_.end());
    }
    std::ranges::reverse(use_after_);
  }

  std::vector<uint32_t> use_after_;  // of each access, in order: the next one
  size_t num_seen_ = 0;              // accesses
  std::vector<uint32_t> next_use_;   // of each unit: a token, or kNever
  ResidentSet set_;
  UnitHeap<uint32_t, GreatestFirst> residents_;
};

// One layer that looks some tokens ahead.
class MovingLayer {
 public:
  MovingLayer(const LayerExtent& extent, size_t layer_idx, const AllUses& uses,
              const std::vector<size_t>& horizons)
      : uses_(uses[layer_idx]),
        horizon_(horizons[layer_idx]),
        counts_(uses_.Count(0, horizon_)),
        nobody_(neuron::WordsOf(extent.num_units), 0),
        residents_(extent) {}

  void Begin(uint32_t unit) { residents_.Begin(unit); }
  void Drop(uint32_t unit) { residents_.Drop(unit); }

  // Those that come next are in [num_passes_, num_passes_ + horizon_).
  void Observe(const neuron::NeuronSet& /*used*/) {
    uses_.ForEach(num_passes_, [&](uint32_t unit) { counts_[unit] -= 1.0f; });
    const size_t last = num_passes_ + horizon_;
    if (last < uses_.num_tokens()) {
      uses_.ForEach(last, [&](uint32_t unit) { counts_[unit] += 1.0f; });
    }
    ++num_passes_;
  }

  Policy::Answer Admit(uint32_t /*unit*/, const neuron::NeuronSet& /*pinned*/) {
    return {};
  }

  std::vector<Policy::Move> Propose(size_t most) {
    // Whoever was used may leave: it has been computed with.
    residents_.NewPass({nobody_.data(), uses_.num_units()}) = counts_;
    return residents_.Propose(most, 0.0f);
  }
  const ResidentSet& residents() const { return residents_.set(); }

 private:
  const UnitUses& uses_;
  size_t horizon_;
  std::vector<float> counts_;  // of uses in sight
  size_t num_passes_ = 0;
  std::vector<uint64_t> nobody_;  // an empty set
  RankedResidents residents_;
};

// How long a slot keeps its unit; 0 without moves: all tokens are in sight.
std::vector<size_t> Horizons(const std::vector<LayerExtent>& layers,
                             uint64_t moves_per_token, size_t num_tokens,
                             double factor) {
  std::vector<size_t> horizons;
  for (const LayerExtent& layer : layers) {
    const double capacity = std::min(layer.capacity, layer.num_units);
    const double moves = static_cast<double>(moves_per_token) /
                         static_cast<double>(layers.size());
    const double tokens = moves > 0.0 ? factor * capacity / moves : 1e18;
    horizons.push_back(static_cast<size_t>(
        std::clamp(std::ceil(tokens), 1.0,
                   std::max(static_cast<double>(num_tokens), 1.0))));
  }
  return horizons;
}

}  // namespace

void Recording::Add(TokenSets sets) {
  TC_CHECK(sets.size() == layers_.size());
  for (size_t l = 0; l < sets.size(); ++l) {
    Layer& layer = layers_[l];
    layer.members.insert(layer.members.end(), sets[l].begin(), sets[l].end());
    layer.ends.push_back(layer.members.size());
  }
  ++num_tokens_;
}

std::span<const uint32_t> Recording::Used(size_t layer_idx,
                                          size_t token_idx) const {
  const Layer& layer = layers_[layer_idx];
  const size_t begin = token_idx == 0 ? 0 : layer.ends[token_idx - 1];
  return std::span(layer.members).subspan(begin, layer.ends[token_idx] - begin);
}

Replay OracleStatic(const Recording& recording,
                    const std::vector<LayerExtent>& layers,
                    const ReplayOptions& options) {
  std::vector<std::vector<float>> counts;
  for (const UnitUses& uses : UsesOf(recording, layers)) {
    counts.push_back(uses.Count(0, uses.num_tokens()));
  }
  const auto extents = WithFrequencies(layers, counts);
  const auto policy = MakeStatic(extents);
  return ReplayOf(*policy, recording, extents, options);
}

Replay Belady(const Recording& recording,
              const std::vector<LayerExtent>& layers,
              const ReplayOptions& options) {
  const AllUses uses = UsesOf(recording, layers);
  std::vector<std::vector<float>> firsts;
  for (const UnitUses& of_layer : uses) {
    firsts.push_back(BeladyLayer::Frequencies(of_layer));
  }
  const auto extents = WithFrequencies(layers, firsts);
  LayeredPolicy<BeladyLayer> policy(extents, uses);
  return ReplayOf(policy, recording, extents, {.seconds = options.seconds});
}

Replay MovingOracle(const Recording& recording,
                    const std::vector<LayerExtent>& layers,
                    const ReplayOptions& options) {
  const AllUses uses = UsesOf(recording, layers);
  std::optional<Replay> best;
  for (const double factor : {1.0, 0.5, 2.0, 4.0}) {
    const auto horizons = Horizons(layers, options.moves_per_token,
                                   recording.num_tokens(), factor);
    std::vector<std::vector<float>> counts;
    for (size_t l = 0; l < layers.size(); ++l) {
      counts.push_back(uses[l].Count(0, horizons[l]));
    }
    const auto extents = WithFrequencies(layers, counts);
    LayeredPolicy<MovingLayer> policy(extents, uses, horizons);
    Replay replay = ReplayOf(policy, recording, extents,
                             {.misses = Misses::kComputed,
                              .moves_per_token = options.moves_per_token,
                              .seconds = options.seconds});
    if (!best || replay.total().hits > best->total().hits) {
      best = std::move(replay);
    }
  }
  return *std::move(best);
}

}  // namespace thermocline::residency
