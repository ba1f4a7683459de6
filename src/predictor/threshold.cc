#include "predictor/threshold.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace thermocline::predictor {
namespace {

// What clang makes of these is a handful of instructions for 64 scores; a loop
// over bits takes five times as long.
constexpr size_t kLanes = 16;
using Floats = float __attribute__((ext_vector_type(kLanes)));
using Bools = bool __attribute__((ext_vector_type(kLanes)));

uint64_t KeptOf16(const float* scores, float threshold) {
  Floats values;
  std::memcpy(&values, scores, sizeof(values));
  const auto dropped = __builtin_convertvector(values < threshold, Bools);
  return static_cast<uint16_t>(~std::bit_cast<uint16_t>(dropped));
}

uint64_t KeptOf(std::span<const float> scores, float threshold) {
  uint64_t bits = 0;
  size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) {
    bits |= KeptOf16(scores.data() + i, threshold) << i;
  }
  for (; i < scores.size(); ++i) {
    bits |= static_cast<uint64_t>(!(scores[i] < threshold)) << i;
  }
  return bits;
}

}  // namespace

void SelectAtLeast(std::span<const float> scores, float threshold,
                   const neuron::NeuronSet& set) {
  TC_DCHECK(scores.size() == set.num_neurons);
  for (size_t first = 0; first < scores.size(); first += 64) {
    set.words[first / 64] = KeptOf(
        scores.subspan(first, std::min<size_t>(64, scores.size() - first)),
        threshold);
  }
}

}  // namespace thermocline::predictor
