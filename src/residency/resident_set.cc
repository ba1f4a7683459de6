#include "residency/resident_set.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace thermocline::residency {

std::vector<uint32_t> BestUnits(const LayerExtent& extent) {
  std::vector<uint32_t> units(extent.num_units);
  std::iota(units.begin(), units.end(), 0u);
  const size_t count = std::min(extent.capacity, extent.num_units);
  const auto end = units.begin() + static_cast<ptrdiff_t>(count);
  if (!extent.frequency.empty()) {
    std::partial_sort(units.begin(), end, units.end(),
                      [&](uint32_t a, uint32_t b) {
                        const float fa = extent.frequency[a];
                        const float fb = extent.frequency[b];
                        return fa != fb ? fa > fb : a < b;
                      });
  }
  units.resize(count);
  return units;
}

ResidentSet::ResidentSet(const LayerExtent& extent)
    : num_units_(extent.num_units),
      capacity_(std::min(extent.capacity, extent.num_units)),
      resident_words_(neuron::WordsOf(num_units_), 0),
      used_words_(neuron::WordsOf(num_units_), 0) {}

neuron::NeuronSet ResidentSet::residents() const {
  return {resident_words_.data(), num_units_};
}

neuron::NeuronSet ResidentSet::used() const {
  return {used_words_.data(), num_units_};
}

bool ResidentSet::Has(uint32_t unit) const { return residents().Has(unit); }

void ResidentSet::Add(uint32_t unit) {
  TC_CHECK(!Has(unit) && size_ < capacity_);
  residents().Add(unit);
  ++size_;
}

void ResidentSet::Remove(uint32_t unit) {
  TC_CHECK(Has(unit));
  resident_words_[unit / 64] &= ~(uint64_t{1} << unit % 64);
  --size_;
}

void ResidentSet::SetUsed(const neuron::NeuronSet& used) {
  std::copy_n(used.words, used_words_.size(), used_words_.begin());
}

void ResidentSet::MarkUsed(uint32_t unit) { used().Add(unit); }

bool ResidentSet::IsUsed(uint32_t unit) const { return used().Has(unit); }

}  // namespace thermocline::residency
