// How models mark the thoughts that come before an answer.
#ifndef THERMOCLINE_TEXT_REASONING_MARKS_H_
#define THERMOCLINE_TEXT_REASONING_MARKS_H_

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace thermocline::text {

struct ReasoningMarks {
  std::string_view begin, end;  // "<think>", "</think>"; empty: there are none
  // What a model writes in front of its answer or between its thoughts and it,
  // and is part of neither: names of channels.
  std::array<std::string_view, 3> between = {};

  bool empty() const { return begin.empty(); }
};

// The marks that a chat template knows: its source holds both; else those of
// the vocabulary, as special tokens: many templates do not mention what the
// model begins its answers with. Neither: none. `tokenizer` may be null.
ReasoningMarks FindReasoningMarks(std::string_view source,
                                  const Tokenizer* tokenizer);

// Whether what is rendered up to an answer opens the thoughts itself, so that
// the answer begins inside of them.
bool OpensReasoning(const ReasoningMarks& marks,
                    std::span<const TextPart> prompt);

// The special tokens that the marks are made of: a reader has to see their
// texts to find them.
Result<std::vector<TokenId>> TokensOf(const ReasoningMarks& marks,
                                      const Tokenizer& tokenizer);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_REASONING_MARKS_H_
