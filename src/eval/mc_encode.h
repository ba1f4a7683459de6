// Multiple-choice items as token ids.
#ifndef THERMOCLINE_EVAL_MC_ENCODE_H_
#define THERMOCLINE_EVAL_MC_ENCODE_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "eval/mc_task.h"
#include "text/tokenizer.h"

namespace thermocline::eval {

using Tokens = std::vector<text::TokenId>;

// Like McItem: one context for all choices, or one each.
struct McTokens {
  std::vector<Tokens> contexts;       // none is empty
  std::vector<Tokens> continuations;  // none is empty

  const Tokens& context(size_t choice) const {
    return contexts[contexts.size() == 1 ? 0 : choice];
  }
  // Positions that scoring takes: the last token of a choice is predicted, but
  // not decoded.
  int64_t num_positions() const;
};

struct McEncodeOptions {
  std::string_view examples;  // in front of each context; see FormatExamples
  int64_t max_positions = std::numeric_limits<int64_t>::max();
  const std::atomic<bool>* cancel = nullptr;  // looked at between items
  ProgressFn progress;                        // items
};

// A context is the tokens of the examples + context, behind BOS where the
// vocabulary adds one; a continuation is what the tokens of the whole text have
// behind as many. Special tokens written out in the text are plain text.
// Errors name file and line. kInvalidArgument: a context or a continuation
// (named) without tokens of its own. kResourceExhausted: the first item that
// takes more than max_positions (cut, it would be another task, whose score
// says nothing). kCancelled: the flag was set.
Result<std::vector<McTokens>> EncodeMcTask(const text::Tokenizer& tokenizer,
                                           const McTask& task,
                                           const McEncodeOptions& options);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_MC_ENCODE_H_
