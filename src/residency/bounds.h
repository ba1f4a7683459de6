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

// What was used by all tokens, members as they come. 4 bytes an access, and 8 a
// token and layer.
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
    std::vector<uint32_t> members;
    std::vector<size_t> ends;  // [T] of each token's in `members`
  };
  std::vector<Layer> layers_;
  size_t num_tokens_ = 0;
};

// All replay the recording under the options' seconds; nothing is told them.

// The units used most, of all of the recording, from the start to the end: no
// set that never changes has more hits. It makes no moves, so that it keeps to
// every budget of them.
Replay OracleStatic(const Recording& recording,
                    const std::vector<LayerExtent>& layers,
                    const ReplayOptions& options = {});

// Who is used next stays (Belady 1966), from the start on: first those used
// first. What was read may be dropped at once, as policies may too, and only
// what was read comes (Misses::kRead, whatever the options say).
// A bound: nobody who only admits what was read has more hits. Who proposes too
// has at most one more for each of his moves: without the move the unit would
// have come with its first miss.
Replay Belady(const Recording& recording,
              const std::vector<LayerExtent>& layers,
              const ReplayOptions& options = {});

// Whoever misses is computed elsewhere (Misses::kComputed), and as many moves
// may be made as the options say, of any units, by somebody who knows what
// comes: behind each token units change places, those with the most uses among
// the next H tokens come, those with the fewest leave, the best gain of uses
// first and none without a gain. H is how long a slot keeps its unit, capacity
// / moves of a token and layer; half, twice and four times as much are tried
// too, and the most hits count. Begins with those used most in the first H.
// Not a bound, but an estimate of it from below: the best choice is a flow over
// all tokens and units, far too large. Exact where moves fill the capacity
// each token (H is 1), and without moves it is OracleStatic.
Replay MovingOracle(const Recording& recording,
                    const std::vector<LayerExtent>& layers,
                    const ReplayOptions& options);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_BOUNDS_H_
