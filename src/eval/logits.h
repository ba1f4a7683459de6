// Raw logits of a token list, to compare engines.
#ifndef THERMOCLINE_EVAL_LOGITS_H_
#define THERMOCLINE_EVAL_LOGITS_H_

#include <cstddef>
#include <functional>
#include <span>

#include "base/status.h"
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

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_LOGITS_H_
