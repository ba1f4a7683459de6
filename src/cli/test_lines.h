// Lines of a chat out of a list.
#ifndef THERMOCLINE_CLI_TEST_LINES_H_
#define THERMOCLINE_CLI_TEST_LINES_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/chat_input.h"

namespace thermocline::cli {

// "^C" gives up a line, "!" is an error.
class TestLines final : public LineSource {
 public:
  explicit TestLines(std::vector<std::string> lines)
      : lines_(std::move(lines)) {}

  Result<Input> Read(bool goes_on) override {
    ++(goes_on ? num_further : num_first);
    if (next_ == lines_.size()) return Input{InputEvent::kEnd, ""};
    const std::string& line = lines_[next_++];
    if (line == "!") return Fail(ErrorCode::kIo, "no line");
    if (line == "^C") return Input{InputEvent::kCtrlC, ""};
    return Input{InputEvent::kText, line};
  }
  void Remember(const std::string& message) override {
    remembered.push_back(message);
  }

  int num_first = 0;
  int num_further = 0;
  std::vector<std::string> remembered;

 private:
  std::vector<std::string> lines_;
  size_t next_ = 0;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TEST_LINES_H_
