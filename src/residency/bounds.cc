#include "residency/bounds.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "residency/unit_heap.h"

namespace thermocline::residency {
namespace {

constexpr uint32_t kNever = UINT32_MAX;

Replay EmptyReplay(const Recording& recording) {
  Replay replay;
  replay.layers.resize(recording.num_layers());
  replay.misses.resize(recording.num_tokens(), 0);
  return replay;
}

size_t CapacityOf(const LayerExtent& layer) {
  return std::min(layer.capacity, layer.num_units);
}

// All units, those with the least `key` first; equal ones by number.
std::vector<uint32_t> UnitsBy(const std::vector<uint64_t>& key) {
  std::vector<uint32_t> units(key.size());
  std::iota(units.begin(), units.end(), 0u);
  std::ranges::sort(units, {},
                    [&](uint32_t unit) { return std::pair(key[unit], unit); });
  return units;
}

std::vector<bool> MostUsed(const Recording& recording, size_t layer_idx,
                           const LayerExtent& layer) {
  std::vector<uint64_t> rests(layer.num_units, recording.num_tokens());
  for (size_t t = 0; t < recording.num_tokens(); ++t) {
    for (const uint32_t unit : recording.Used(layer_idx, t)) --rests[unit];
  }
  const std::vector<uint32_t> units = UnitsBy(rests);
  std::vector<bool> is_chosen(layer.num_units, false);
  for (size_t i = 0; i < CapacityOf(layer); ++i) is_chosen[units[i]] = true;
  return is_chosen;
}

// One layer under Belady's rule.
class Clairvoyant {
 public:
  Clairvoyant(const Recording& recording, size_t layer_idx,
              const LayerExtent& layer)
      : recording_(recording),
        layer_idx_(layer_idx),
        capacity_(CapacityOf(layer)),
        next_use_(layer.num_units, kNever),
        is_resident_(layer.num_units, false),
        residents_(layer.num_units) {
    FindNextUses();
    const std::vector<uint32_t> units =
        UnitsBy({next_use_.begin(), next_use_.end()});
    for (size_t i = 0; i < capacity_; ++i) Add(units[i]);
  }

  // The tokens in their order.
  void Run(size_t token_idx, Tally& tally, uint32_t& misses) {
    const auto used = recording_.Used(layer_idx_, token_idx);
    std::vector<uint32_t> missed;
    for (const uint32_t unit : used) {
      next_use_[unit] = use_after_[num_seen_++];
      if (is_resident_[unit]) {
        residents_.Set(unit, next_use_[unit]);
      } else {
        missed.push_back(unit);
      }
    }
    tally.accesses += used.size();
    tally.hits += used.size() - missed.size();
    misses += static_cast<uint32_t>(missed.size());
    for (const uint32_t unit : missed) Offer(unit, tally);
  }

 private:
  // From the end: use_after_ of each access, and at last next_use_ of the
  // start.
  void FindNextUses() {
    size_t num_accesses = 0;
    for (size_t t = 0; t < recording_.num_tokens(); ++t) {
      num_accesses += recording_.Used(layer_idx_, t).size();
    }
    use_after_.resize(num_accesses);
    for (size_t t = recording_.num_tokens(); t-- > 0;) {
      const auto used = recording_.Used(layer_idx_, t);
      num_accesses -= used.size();
      for (size_t i = 0; i < used.size(); ++i) {
        use_after_[num_accesses + i] = next_use_[used[i]];
        next_use_[used[i]] = static_cast<uint32_t>(t);
      }
    }
  }

  void Add(uint32_t unit) {
    is_resident_[unit] = true;
    residents_.Push(unit, next_use_[unit]);
  }

  // Nothing that is kept in vain is admitted, so that nothing is wasted.
  void Offer(uint32_t unit, Tally& tally) {
    if (capacity_ == 0 || next_use_[unit] == kNever) return;
    const uint32_t last = residents_.first().unit;
    if (next_use_[last] <= next_use_[unit]) return;
    residents_.Remove(last);
    is_resident_[last] = false;
    Add(unit);
    ++tally.admissions;
    ++tally.evictions;
  }

  const Recording& recording_;
  size_t layer_idx_;
  size_t capacity_;
  std::vector<uint32_t> use_after_;  // of each access, in order: the next one
  size_t num_seen_ = 0;              // accesses
  std::vector<uint32_t> next_use_;   // of each unit: a token, or kNever
  std::vector<bool> is_resident_;
  UnitHeap<uint32_t, GreatestFirst> residents_;  // always full
};

}  // namespace

void Recording::Add(TokenSets sets) {
  TC_CHECK(sets.size() == layers_.size());
  for (size_t l = 0; l < sets.size(); ++l) {
    Layer& layer = layers_[l];
    layer.units.insert(layer.units.end(), sets[l].begin(), sets[l].end());
    layer.ends.push_back(layer.units.size());
  }
  ++num_tokens_;
}

std::span<const uint32_t> Recording::Used(size_t layer_idx,
                                          size_t token_idx) const {
  const Layer& layer = layers_[layer_idx];
  const size_t begin = token_idx == 0 ? 0 : layer.ends[token_idx - 1];
  return std::span(layer.units).subspan(begin, layer.ends[token_idx] - begin);
}

Replay OracleStatic(const Recording& recording,
                    const std::vector<LayerExtent>& layers) {
  TC_CHECK(layers.size() == recording.num_layers());
  Replay replay = EmptyReplay(recording);
  for (size_t l = 0; l < layers.size(); ++l) {
    const std::vector<bool> is_chosen = MostUsed(recording, l, layers[l]);
    Tally& tally = replay.layers[l];
    for (size_t t = 0; t < recording.num_tokens(); ++t) {
      for (const uint32_t unit : recording.Used(l, t)) {
        ++tally.accesses;
        if (is_chosen[unit]) {
          ++tally.hits;
        } else {
          ++replay.misses[t];
        }
      }
    }
  }
  return replay;
}

Replay Belady(const Recording& recording,
              const std::vector<LayerExtent>& layers) {
  TC_CHECK(layers.size() == recording.num_layers());
  Replay replay = EmptyReplay(recording);
  for (size_t l = 0; l < layers.size(); ++l) {
    Clairvoyant layer(recording, l, layers[l]);
    for (size_t t = 0; t < recording.num_tokens(); ++t) {
      layer.Run(t, replay.layers[l], replay.misses[t]);
    }
  }
  return replay;
}

}  // namespace thermocline::residency
