// Log-probabilities of the choices of multiple-choice items.
#ifndef THERMOCLINE_EVAL_MC_SCORE_H_
#define THERMOCLINE_EVAL_MC_SCORE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "engine/session.h"
#include "eval/mc_encode.h"

namespace thermocline::eval {

// For each choice the sum of the natural log-probabilities of its
// continuation's tokens.
using McScores = std::vector<double>;

// Bytes of logits that ScoreMcItems allocates, at most.
uint64_t ScoringBytes(size_t vocab_size);

// Scores all items, in order; a context is decoded once for all its choices,
// and what it shares with the context before it not again. The same bits for
// every number of threads and every order. `what` names the work in `progress`.
// Errors of the session, and kCorrupt for logits that are not finite, name the
// item's number, from 1. Leaves the session empty, but for errors. Requires
// items whose ids are the model's and that fit the
// context (CHECKed).
Result<std::vector<McScores>> ScoreMcItems(engine::Session& session,
                                           std::span<const McTokens> items,
                                           std::string_view what,
                                           const ProgressFn& progress);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_MC_SCORE_H_
