// Parts a model's thoughts from its answer, in text that arrives in pieces.
#ifndef THERMOCLINE_DECODE_REASONING_SPLITTER_H_
#define THERMOCLINE_DECODE_REASONING_SPLITTER_H_

#include <string>
#include <string_view>

#include "text/reasoning_marks.h"

namespace thermocline::decode {

// Thoughts come first: behind the first word of an answer a mark is text like
// other text. What is held back is what may be the beginning of a mark, and
// white space that thoughts may end with. Neither part has white space in
// front, nor thoughts behind them; of several thoughts an empty line stands
// between them.
class ReasoningSplitter {
 public:
  struct Split {
    std::string reasoning, content;
  };

  // is_open: the prompt ends with the mark that begins thoughts.
  ReasoningSplitter(const text::ReasoningMarks& marks, bool is_open);

  // What is certain now.
  Split Push(std::string_view piece);
  // What is held back, when no more text comes.
  Split Flush();

 private:
  enum class State { kBetween, kThoughts, kAnswer };

  // Each takes what it can from pending_; false: it needs more text.
  bool TakeBetween();
  bool TakeThoughts(Split* split);
  void AddThoughts(std::string_view text, Split* split);

  text::ReasoningMarks marks_;
  State state_;
  std::string pending_;
  bool has_thoughts_ = false;     // some were given
  bool begins_thoughts_ = false;  // none of those that are open
};

}  // namespace thermocline::decode

#endif  // THERMOCLINE_DECODE_REASONING_SPLITTER_H_
