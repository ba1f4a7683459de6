// A text in chunks, and what sessions predict in each: what perplexity and
// divergence have in common. Counted as llama.cpp counts.
#ifndef THERMOCLINE_EVAL_PREDICTIONS_H_
#define THERMOCLINE_EVAL_PREDICTIONS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>

#include "base/progress.h"
#include "base/status.h"
#include "engine/session.h"

namespace thermocline::eval {

inline constexpr int64_t kMinChunk = 4;

// How a text is cut, from its beginning; what is left over at the end is
// dropped.
struct Chunks {
  int64_t size;  // tokens in each
  int64_t max_count = std::numeric_limits<int64_t>::max();

  int64_t CountIn(std::span<const text::TokenId> tokens) const;
};

// kInvalidArgument unless a text of `num_tokens` has at least two chunks (as
// llama.cpp asks for) of `chunk` tokens, which are at least kMinChunk.
Status CheckChunks(int64_t num_tokens, int64_t chunk);

// BOS, if the vocabulary asks for it in front of text.
std::optional<text::TokenId> BosThatIsAdded(const model::Model& model);

// Bytes that ForEachPrediction allocates for the logits of each session.
uint64_t PredictionBytes(size_t vocab_size, int64_t chunk);

// Each session's logits [V] of one position, and the token that comes next.
// An error stops the run.
using PredictionFn = std::function<Status(
    std::span<const std::span<const float>> logits, text::TokenId target)>;

// Each chunk starts with empty KV caches, its first token replaced by BOS where
// the first session's vocabulary adds one; `visit` sees positions size/2 to
// size - 2, in order. Every position runs in its session's mode. Leaves the
// sessions empty, except after an error. Besides CheckChunks, of the whole
// text: kInvalidArgument when a chunk is more than a session's context, or an
// id is outside the vocabulary. Errors of the sessions and of `visit` name the
// chunk, and of several sessions the one. Requires sessions with one vocabulary
// size, and one chunk at least (CHECKed).
Status ForEachPrediction(std::span<engine::Session* const> sessions,
                         std::span<const text::TokenId> tokens,
                         const Chunks& chunks, const ProgressFn& progress,
                         const PredictionFn& visit);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_PREDICTIONS_H_
