#include "bench/logits_hash.h"

#include <cmath>
#include <cstring>

namespace thermocline::bench {

std::optional<uint64_t> FoldLogits(std::span<const float> logits,
                                   uint64_t hash) {
  bool finite = true;
  for (const float logit : logits) {
    uint32_t bits = 0;
    std::memcpy(&bits, &logit, sizeof(bits));
    finite &= std::isfinite(logit);
    hash = (hash ^ bits) * 0x100000001b3u;  // FNV-1a, a word at a time
  }
  return finite ? std::optional(hash) : std::nullopt;
}

}  // namespace thermocline::bench
