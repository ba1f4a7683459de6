// Raw logits of a token list, to compare engines.
#ifndef THERMOCLINE_EVAL_LOGITS_H_
#define THERMOCLINE_EVAL_LOGITS_H_

#include <span>
#include <string>

#include "base/status.h"
#include "engine/session.h"

namespace thermocline::eval {

// Writes f32 [T, V], little-endian, of all positions to `output` (whole or not
// at all). One batch, or token by token. No BOS is added.
Status WriteLogits(engine::Session& session,
                   std::span<const text::TokenId> tokens, bool one_by_one,
                   const std::string& output);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_LOGITS_H_
