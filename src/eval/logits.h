// Raw logits of a token list, to compare engines.
#ifndef THERMOCLINE_EVAL_LOGITS_H_
#define THERMOCLINE_EVAL_LOGITS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/runtime.h"
#include "engine/session.h"

namespace thermocline::eval {

// Takes the next bytes of the result; an error stops the computation.
using BytesFn = std::function<Status(std::span<const std::byte> bytes)>;

// Gives f32 [T, V], little-endian, of all positions to `write`, in order. One
// batch as a prompt (cut where its logits would not fit kLogitsBufferBytes,
// which changes no bit), or token by token as if they were generated. No BOS is
// added. kInvalidArgument: no tokens. kResourceExhausted: more tokens than the
// session's context, before any work. Errors of the session and of `write` pass
// through.
inline constexpr size_t kLogitsBufferBytes = size_t{64} << 20;
Status WriteLogits(engine::Session& session,
                   std::span<const text::TokenId> tokens, bool one_by_one,
                   const BytesFn& write);

// The same of several sequences that share one runtime's passes, those of the
// first sequence before those of the next: as prompts, or all of the generate
// phase, a token of each at a time. A row's bits are those that its sequence
// has alone.
// kInvalidArgument: no sequences, or one without tokens. kResourceExhausted: a
// sequence is longer than the runtime's context, or there are more than it has
// memory for, before any work.
// Cost: one by one, memory for all logits (TogetherBytes).
Status WriteLogitsTogether(
    engine::Runtime& runtime,
    std::span<const std::vector<text::TokenId>> sequences, bool one_by_one,
    const BytesFn& write);

// Bytes of logits that it allocates, at most.
uint64_t TogetherBytes(std::span<const std::vector<text::TokenId>> sequences,
                       size_t vocab_size, bool one_by_one);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_LOGITS_H_
