// What no policy can beat: choices that know what comes. Over a recording,
// since they look at all of it.
#ifndef THERMOCLINE_RESIDENCY_BOUNDS_H_
#define THERMOCLINE_RESIDENCY_BOUNDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "residency/policy.h"
#include "residency/replay.h"

namespace thermocline::residency {

// What was used by all tokens. 4 bytes an access, and 8 a token and layer.
class Recording {
 public:
  explicit Recording(size_t num_layers) : layers_(num_layers) {}

  // Requires as many sets as layers (CHECKed).
  void Add(TokenSets sets);

  size_t num_layers() const { return layers_.size(); }
  size_t num_tokens() const { return num_tokens_; }
  std::span<const uint32_t> Used(size_t layer_idx, size_t token_idx) const;

 private:
  struct Layer {
    std::vector<uint32_t> units;
    std::vector<size_t> ends;  // [T] of each token's in `units`
  };
  std::vector<Layer> layers_;
  size_t num_tokens_ = 0;
};

// The units used most, of all of the recording, from the start to the end: no
// set that never changes has more hits.
Replay OracleStatic(const Recording& recording,
                    const std::vector<LayerExtent>& layers);

// Who is used next stays (Belady 1966), from the start on: first those used
// first. What was read may be dropped at once, as policies may too. Nobody has
// more hits.
Replay Belady(const Recording& recording,
              const std::vector<LayerExtent>& layers);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_BOUNDS_H_
