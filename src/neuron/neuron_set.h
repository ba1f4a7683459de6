// A set of the neurons of one FFN, one bit each.
#ifndef THERMOCLINE_NEURON_NEURON_SET_H_
#define THERMOCLINE_NEURON_NEURON_SET_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace thermocline::neuron {

// Words that a set of `num_neurons` takes.
constexpr size_t WordsOf(size_t num_neurons) { return (num_neurons + 63) / 64; }

// Calls f(neuron) for the members in [begin, end), ascending, of the set that
// the words hold.
template <class Function>
void ForEachMember(const uint64_t* words, size_t begin, size_t end,
                   Function f) {
  for (size_t first = begin / 64 * 64; first < end; first += 64) {
    uint64_t bits = words[first / 64];
    if (first < begin) bits &= ~uint64_t{0} << (begin - first);
    if (end - first < 64) bits &= ~(~uint64_t{0} << (end - first));
    for (; bits != 0; bits &= bits - 1) {
      f(first + static_cast<size_t>(std::countr_zero(bits)));
    }
  }
}

// A view of WordsOf(num_neurons) words that somebody else owns: neuron i is bit
// i % 64 of word i / 64. Bits behind the last neuron are 0.
struct NeuronSet {
  uint64_t* words = nullptr;
  size_t num_neurons = 0;

  bool Has(size_t neuron) const {
    return (words[neuron / 64] >> neuron % 64 & 1) != 0;
  }

  // Neurons [first, first + count) as a set of their own; first % 64 == 0, and
  // count % 64 == 0 unless they are the last.
  NeuronSet Part(size_t first, size_t count) const {
    return {words + first / 64, count};
  }

  void Clear() const { std::fill_n(words, WordsOf(num_neurons), 0); }
  // Makes all neurons members.
  void Fill() const {
    std::fill_n(words, WordsOf(num_neurons), ~uint64_t{0});
    if (num_neurons % 64 != 0) {
      words[num_neurons / 64] = ~(~uint64_t{0} << num_neurons % 64);
    }
  }
  // Makes the members of `other`, of as many neurons, members too.
  void AddAllOf(const NeuronSet& other) const {
    for (size_t i = 0; i < WordsOf(num_neurons); ++i)
      words[i] |= other.words[i];
  }
  size_t Count() const {
    size_t count = 0;
    for (size_t i = 0; i < WordsOf(num_neurons); ++i) {
      count += static_cast<size_t>(std::popcount(words[i]));
    }
    return count;
  }
  // How many members are also in `other`, of as many neurons.
  size_t CountIn(const NeuronSet& other) const {
    size_t count = 0;
    for (size_t i = 0; i < WordsOf(num_neurons); ++i) {
      count += static_cast<size_t>(std::popcount(words[i] & other.words[i]));
    }
    return count;
  }
  void Add(size_t neuron) const {
    words[neuron / 64] |= uint64_t{1} << neuron % 64;
  }

  // Calls f(neuron) for the members in [begin, end), ascending.
  template <class Function>
  void ForEachIn(size_t begin, size_t end, Function f) const {
    ForEachMember(words, begin, end, f);
  }
};

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_NEURON_SET_H_
