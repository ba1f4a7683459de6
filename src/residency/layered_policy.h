// A policy from what it does in one layer.
#ifndef THERMOCLINE_RESIDENCY_LAYERED_POLICY_H_
#define THERMOCLINE_RESIDENCY_LAYERED_POLICY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "neuron/neuron_set.h"
#include "residency/policy.h"
#include "residency/resident_set.h"
#include "residency/unit_members.h"

namespace thermocline::residency {

// What a pass has used of a layer, member by member.
struct UsedMembers {
  const UnitMembers& of_units;
  const neuron::NeuronSet& used;

  float ShareOf(uint32_t unit) const { return of_units.ShareIn(unit, used); }
};

// Who was used last and is missing, each until it was offered to a policy that
// waits for misses.
class WaitingUnits {
 public:
  explicit WaitingUnits(size_t num_units)
      : words_(neuron::WordsOf(num_units), 0), num_units_(num_units) {}

  void Set(const neuron::NeuronSet& used) {
    std::copy_n(used.words, words_.size(), words_.begin());
  }
  void Remove(uint32_t unit) {
    words_[unit / 64] &= ~(uint64_t{1} << unit % 64);
  }

  // By number, from where the last proposal ended: they are all alike, and
  // where not all have their turn the low numbers would always have it.
  std::vector<uint32_t> InTurn(const ResidentSet& residents) const {
    std::vector<uint32_t> units;
    const auto add = [&](size_t i) {
      const auto unit = static_cast<uint32_t>(i);
      if (!residents.Has(unit)) units.push_back(unit);
    };
    neuron::ForEachMember(words_.data(), first_, num_units_, add);
    neuron::ForEachMember(words_.data(), 0, first_, add);
    return units;
  }
  // `unit` was the last of a proposal.
  void EndTurnAt(uint32_t unit) { first_ = (unit + 1) % num_units_; }

 private:
  std::vector<uint64_t> words_;
  size_t num_units_;
  size_t first_ = 0;
};

// Layer  has the functions of Policy without `layer_idx`, and residents(). It
//        may count on what Policy requires: it is checked here. Begin is told
//        of each of Initial, the worst first. Observe is given the units used,
//        and what was used of them if it takes that too. Without a Propose it
//        is offered those that are missing, in the order of RankOf(unit), if
//        there is one, the greatest first.
template <class Layer>
class LayeredPolicy final : public Policy {
 public:
  // `settings` are every layer's, behind its extent, and its number if it takes
  // that.
  template <class... Settings>
  explicit LayeredPolicy(const std::vector<LayerExtent>& extents,
                         const Settings&... settings)
      : initial_(extents.size()), has_begun_(extents.size(), false) {
    for (size_t l = 0; l < extents.size(); ++l) {
      if constexpr (std::is_constructible_v<Layer, const LayerExtent&, size_t,
                                            const Settings&...>) {
        layers_.emplace_back(extents[l], l, settings...);
      } else {
        layers_.emplace_back(extents[l], settings...);
      }
      initial_[l] = BestUnits(extents[l]);
      members_.emplace_back(extents[l]);
      waiting_.emplace_back(kProposes ? 0 : extents[l].num_units);
    }
  }

  std::vector<uint32_t> Initial(size_t layer_idx) override {
    Layer& layer = At(layer_idx);
    TC_CHECK(!has_begun_[layer_idx]);
    has_begun_[layer_idx] = true;
    std::vector<uint32_t> units = std::move(initial_[layer_idx]);
    // The worst first, so that it is the oldest too.
    for (size_t i = units.size(); i-- > 0;) layer.Begin(units[i]);
    return units;
  }

  void Observe(size_t layer_idx, const neuron::NeuronSet& used) override {
    Layer& layer = At(layer_idx);
    UnitMembers& members = members_[layer_idx];
    TC_CHECK(used.num_neurons == members.num_members());
    has_begun_[layer_idx] = true;
    const neuron::NeuronSet units = members.UnitsOf(used);
    if constexpr (requires {
                    layer.Observe(units, UsedMembers{members, used});
                  }) {
      layer.Observe(units, UsedMembers{members, used});
    } else {
      layer.Observe(units);
    }
    if constexpr (!kProposes) waiting_[layer_idx].Set(units);
  }

  Answer Admit(size_t layer_idx, uint32_t unit,
               const neuron::NeuronSet& pinned) override {
    Layer& layer = At(layer_idx);
    const ResidentSet& residents = layer.residents();
    TC_CHECK(unit < residents.num_units() && !residents.Has(unit));
    TC_CHECK(pinned.num_neurons == 0 ||
             pinned.num_neurons == residents.num_units());
    has_begun_[layer_idx] = true;
    return Offer(layer_idx, unit, pinned);
  }

  std::vector<Move> Propose(size_t layer_idx, size_t most) override {
    Layer& layer = At(layer_idx);
    has_begun_[layer_idx] = true;
    if (most == 0 || layer.residents().capacity() == 0) return {};
    if constexpr (kProposes) {
      return layer.Propose(most);
    } else {
      return ProposeWaiting(layer_idx, most);
    }
  }

  void Drop(size_t layer_idx, uint32_t unit) override {
    Layer& layer = At(layer_idx);
    TC_CHECK(unit < layer.residents().num_units() &&
             layer.residents().Has(unit));
    layer.Drop(unit);
    if constexpr (!kProposes) waiting_[layer_idx].Remove(unit);
  }

  void Tell(size_t layer_idx, Bottleneck what) override {
    Layer& layer = At(layer_idx);
    if constexpr (requires { layer.Tell(what); }) layer.Tell(what);
  }

  bool IsResident(size_t layer_idx, uint32_t unit) const override {
    const ResidentSet& residents = At(layer_idx).residents();
    TC_CHECK(unit < residents.num_units());
    return residents.Has(unit);
  }

  size_t num_resident(size_t layer_idx) const override {
    return At(layer_idx).residents().size();
  }

 private:
  static constexpr bool kProposes =
      requires(Layer& layer) { layer.Propose(size_t{1}); };

  Answer Offer(size_t layer_idx, uint32_t unit,
               const neuron::NeuronSet& pinned) {
    Layer& layer = layers_[layer_idx];
    if constexpr (!kProposes) waiting_[layer_idx].Remove(unit);
    if (layer.residents().capacity() == 0) return {};
    return layer.Admit(unit, pinned);
  }

  // The greatest first; of equal ones who is in front.
  static void SortByRank(const Layer& layer, std::vector<uint32_t>& units) {
    using Rank = std::decay_t<decltype(layer.RankOf(0))>;
    std::vector<std::pair<Rank, size_t>> ranks;
    for (size_t i = 0; i < units.size(); ++i) {
      ranks.emplace_back(layer.RankOf(units[i]), units.size() - i);
    }
    std::ranges::sort(ranks, std::ranges::greater());
    std::vector<uint32_t> sorted;
    for (const auto& [rank, from_end] : ranks) {
      sorted.push_back(units[units.size() - from_end]);
    }
    units = std::move(sorted);
  }

  std::vector<Move> ProposeWaiting(size_t layer_idx, size_t most) {
    Layer& layer = layers_[layer_idx];
    WaitingUnits& waiting = waiting_[layer_idx];
    std::vector<uint32_t> units = waiting.InTurn(layer.residents());
    if constexpr (requires { layer.RankOf(uint32_t{0}); }) {
      SortByRank(layer, units);
    }
    std::vector<Move> moves;
    for (const uint32_t unit : units) {
      if (moves.size() == most) break;
      const Answer answer = Offer(layer_idx, unit, {});
      if (answer.is_admitted) moves.push_back({unit, answer.leaves});
    }
    if (!moves.empty()) waiting.EndTurnAt(moves.back().unit);
    return moves;
  }

  Layer& At(size_t layer_idx) {
    TC_CHECK(layer_idx < layers_.size());
    return layers_[layer_idx];
  }
  const Layer& At(size_t layer_idx) const {
    TC_CHECK(layer_idx < layers_.size());
    return layers_[layer_idx];
  }

  std::deque<Layer> layers_;  // not moved: they may point into themselves
  std::vector<std::vector<uint32_t>> initial_;  // [L] until it is asked for
  std::vector<bool> has_begun_;                 // [L]
  std::vector<UnitMembers> members_;            // [L]
  std::vector<WaitingUnits> waiting_;           // [L]
};

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_LAYERED_POLICY_H_
