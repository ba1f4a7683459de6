// How much texts have in common: whether who is hot in one is hot in another.
#ifndef THERMOCLINE_NEURON_TEXT_HEAT_H_
#define THERMOCLINE_NEURON_TEXT_HEAT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "neuron/dynamics.h"

namespace thermocline::neuron {

// Jaccard indices of texts' hot units (HotFrom), each text's by its own counts
// (DynamicInfer, Fig. 2b). Of a trace with more texts than kMaxTexts it takes
// so many, evenly spread. Threads  one caller at a time. Memory: 4 bytes a
// unit, and a bit for each text that is compared.
class TextHeat {
 public:
  static constexpr size_t kMaxTexts = 16;
  // Of fewer tokens nothing is hot by more than chance.
  static constexpr uint64_t kMinTokens = 8;

  // num_texts: how often BeginText will be called.
  TextHeat(size_t num_layers, size_t num_units, uint64_t num_texts);

  void BeginText();
  // One token's units that fired, ascending and < U, in layer 0 first.
  void Add(size_t layer_idx, std::span<const uint32_t> fired);
  // After the last token; before what is below.
  void Finish() { EndText(); }

  // The texts that are compared, as numbers of BeginText calls from 0. T.
  const std::vector<uint64_t>& texts() const { return texts_; }
  // Mean over pairs of texts, in a layer; none of fewer than two texts, or
  // where nothing fired.
  Mean InLayer(size_t layer_idx) const;
  // Mean over layers, of the i-th and j-th text that is compared.
  Mean Between(size_t i, size_t j) const;

 private:
  bool IsChosen(uint64_t text_idx) const;
  void EndText();
  std::optional<double> Jaccard(size_t layer_idx, size_t i, size_t j) const;

  size_t num_units_;
  uint64_t num_texts_;
  uint64_t num_begun_ = 0;
  bool is_chosen_ = false;                     // the text that is read
  uint64_t num_tokens_ = 0;                    // of it
  std::vector<std::vector<uint32_t>> counts_;  // [L][U] of it
  std::vector<uint64_t> texts_;
  // [T][L] words of a set each.
  std::vector<std::vector<std::vector<uint64_t>>> hot_;
};

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_TEXT_HEAT_H_
