// Lines typed at a terminal, with editing, history and paste.
#ifndef THERMOCLINE_CLI_LINE_EDITOR_H_
#define THERMOCLINE_CLI_LINE_EDITOR_H_

#include <memory>
#include <string>

#include "cli/chat_input.h"

namespace thermocline::cli {

// Emacs keys, arrows, Ctrl-R to search. What is pasted is one text, whatever
// its line ends (terminals with bracketed paste). The history lives in memory
// only. Text is UTF-8 whatever the locale.
// Threads: one caller at a time. The terminal is as it was outside Read.
class LineEditor final : public LineSource {
 public:
  // Null unless standard input is a terminal, and standard error or output is
  // one, that can move its cursor (TERM).
  static std::unique_ptr<LineEditor> Create();
  ~LineEditor() override;

  Result<Input> Read(bool goes_on) override;
  void Remember(const std::string& message) override;

 private:
  struct State;
  explicit LineEditor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_LINE_EDITOR_H_
