#include "cli/stdin_lines.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/units.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace thermocline::cli {

const char* ChatPrompt(bool goes_on) { return goes_on ? ". " : "> "; }

Input StdinLines::LineOf(std::string line) {
  if (line.ends_with('\r')) line.pop_back();  // of CR LF
  if (std::exchange(is_first_, false)) {
    line.erase(0, line.size() - text::WithoutByteOrderMark(line).size());
  }
  return {InputEvent::kText, std::move(line)};
}

Result<Input> StdinLines::Read(bool goes_on) {
  if (at_terminal_) WriteStderr(ChatPrompt(goes_on));
  std::array<char, 1 << 16> buffer;
  size_t num_searched = 0;
  while (true) {
    const size_t end = pending_.find('\n', num_searched);
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return LineOf(std::move(line));
    }
    num_searched = pending_.size();
    if (num_searched > text::kMaxTextBytes) {
      return Fail(ErrorCode::kResourceExhausted,
                  "standard input: a line has more than {}, the most that is "
                  "read here",
                  FormatBytes(text::kMaxTextBytes));
    }
    if (!WaitForInput(STDIN_FILENO)) {
      if (!at_terminal_ || !TakeCtrlC()) {
        return Fail(ErrorCode::kCancelled, "interrupted");
      }
      return Input{InputEvent::kCtrlC, std::exchange(pending_, {})};
    }
    const ssize_t num_read = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (num_read > 0) {
      pending_.append(buffer.data(), static_cast<size_t>(num_read));
    } else if (num_read == 0) {
      if (pending_.empty()) return Input{InputEvent::kEnd, ""};
      return LineOf(std::exchange(pending_, {}));
    } else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
      return Fail(ErrorCode::kIo, "cannot read standard input: {}",
                  std::generic_category().message(errno));
    }
  }
}

}  // namespace thermocline::cli
