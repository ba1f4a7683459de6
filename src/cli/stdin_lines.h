// Lines from standard input without editing: from a pipe, a file, or a terminal
// that cannot do more.
#ifndef THERMOCLINE_CLI_STDIN_LINES_H_
#define THERMOCLINE_CLI_STDIN_LINES_H_

#include <string>

#include "cli/chat_input.h"

namespace thermocline::cli {

class StdinLines final : public LineSource {
 public:
  // at_terminal: shows prompts on standard error, and Ctrl-C gives up a line
  // instead of ending the program. What was typed of it is the terminal's
  // own until the line ends, so that it counts as empty.
  explicit StdinLines(bool at_terminal) : at_terminal_(at_terminal) {}

  // A line end is LF or CR LF. A byte order mark in front of the first line is
  // dropped. A last line without one counts; a line of more
  // than 1 GiB does not (kResourceExhausted).
  Result<Input> Read(bool goes_on) override;
  void Remember(const std::string& /*message*/) override {}

 private:
  Input LineOf(std::string line);

  bool at_terminal_;
  bool is_first_ = true;
  std::string pending_;  // read, but behind the last line
};

// What both kinds of input show in front of a line.
const char* ChatPrompt(bool goes_on);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STDIN_LINES_H_
