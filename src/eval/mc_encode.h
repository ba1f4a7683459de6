// Multiple-choice items as token ids.
#ifndef THERMOCLINE_EVAL_MC_ENCODE_H_
#define THERMOCLINE_EVAL_MC_ENCODE_H_

#include <cstdint>
#include <string_view>
#include <vector>

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

// A context is the tokens of `examples` + context, behind BOS where the
// vocabulary adds one; a continuation is what the tokens of the whole text have
// behind as many. Special tokens written out in the text are plain text.
// kInvalidArgument, naming file, line and choice: a context or a continuation
// without tokens of its own.
Result<std::vector<McTokens>> EncodeMcTask(const text::Tokenizer& tokenizer,
                                           const McTask& task,
                                           std::string_view examples);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_MC_ENCODE_H_
