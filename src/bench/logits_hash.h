// Whether logits are what they were before.
#ifndef THERMOCLINE_BENCH_LOGITS_HASH_H_
#define THERMOCLINE_BENCH_LOGITS_HASH_H_

#include <cstdint>
#include <optional>
#include <span>

namespace thermocline::bench {

inline constexpr uint64_t kNoLogits = 0xcbf29ce484222325u;

// Folds logits, bit by bit, into a hash that begins with kNoLogits; nullopt if
// one of them is not finite.
std::optional<uint64_t> FoldLogits(std::span<const float> logits,
                                   uint64_t hash);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_LOGITS_HASH_H_
