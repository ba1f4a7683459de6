#include "predictor/threshold.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace thermocline::predictor {

void SelectAtLeast(std::span<const float> scores, float threshold,
                   const NeuronSet& set) {
  TC_DCHECK(scores.size() == set.num_neurons);
  for (size_t first = 0; first < scores.size(); first += 64) {
    const auto part =
        scores.subspan(first, std::min<size_t>(64, scores.size() - first));
    uint64_t bits = 0;
    for (size_t i = 0; i < part.size(); ++i) {
      bits |= static_cast<uint64_t>(!(part[i] < threshold)) << i;
    }
    set.words[first / 64] = bits;
  }
}

}  // namespace thermocline::predictor
