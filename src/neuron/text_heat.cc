#include "neuron/text_heat.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "neuron/neuron_set.h"

namespace thermocline::neuron {

TextHeat::TextHeat(size_t num_layers, size_t num_units, uint64_t num_texts)
    : num_units_(num_units),
      num_texts_(num_texts),
      counts_(num_layers, std::vector<uint32_t>(num_units)) {}

// The i-th of those that are chosen is i * num_texts / kMaxTexts, rounded down.
bool TextHeat::IsChosen(uint64_t text_idx) const {
  if (num_texts_ <= kMaxTexts) return true;
  const uint64_t i = (text_idx * kMaxTexts + num_texts_ - 1) / num_texts_;
  return i < kMaxTexts && i * num_texts_ / kMaxTexts == text_idx;
}

void TextHeat::BeginText() {
  EndText();
  is_chosen_ = IsChosen(num_begun_++);
}

void TextHeat::EndText() {
  if (num_tokens_ >= kMinTokens) {
    texts_.push_back(num_begun_ - 1);
    auto& sets = hot_.emplace_back();
    for (const std::vector<uint32_t>& counts : counts_) {
      auto& words = sets.emplace_back(WordsOf(num_units_));
      const NeuronSet set = {words.data(), num_units_};
      const uint32_t hot_from = HotFrom(counts);
      for (size_t unit = 0; unit < num_units_; ++unit) {
        if (counts[unit] >= hot_from) set.Add(unit);
      }
    }
  }
  if (num_tokens_ > 0) {
    for (std::vector<uint32_t>& counts : counts_) {
      std::ranges::fill(counts, 0u);
    }
  }
  num_tokens_ = 0;
}

void TextHeat::Add(size_t layer_idx, std::span<const uint32_t> fired) {
  if (!is_chosen_) return;
  TC_CHECK(fired.empty() || fired.back() < num_units_);
  if (layer_idx == 0) ++num_tokens_;
  for (const uint32_t unit : fired) ++counts_[layer_idx][unit];
}

std::optional<double> TextHeat::Jaccard(size_t layer_idx, size_t i,
                                        size_t j) const {
  uint64_t num_both = 0;
  uint64_t num_any = 0;
  const std::vector<uint64_t>& a = hot_[i][layer_idx];
  const std::vector<uint64_t>& b = hot_[j][layer_idx];
  for (size_t w = 0; w < a.size(); ++w) {
    num_both += static_cast<uint64_t>(std::popcount(a[w] & b[w]));
    num_any += static_cast<uint64_t>(std::popcount(a[w] | b[w]));
  }
  if (num_any == 0) return std::nullopt;
  return static_cast<double>(num_both) / static_cast<double>(num_any);
}

Mean TextHeat::InLayer(size_t layer_idx) const {
  Mean mean;
  for (size_t i = 0; i < texts_.size(); ++i) {
    for (size_t j = i + 1; j < texts_.size(); ++j) {
      if (const auto share = Jaccard(layer_idx, i, j)) mean.Add(*share);
    }
  }
  return mean;
}

Mean TextHeat::Between(size_t i, size_t j) const {
  Mean mean;
  for (size_t l = 0; l < counts_.size(); ++l) {
    if (const auto share = Jaccard(l, i, j)) mean.Add(*share);
  }
  return mean;
}

}  // namespace thermocline::neuron
