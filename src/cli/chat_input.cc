#include "cli/chat_input.h"

#include <string_view>

namespace thermocline::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

// Appends lines to `message` until `is_done` says so of what it has become.
template <typename IsDone>
Result<Input> ReadOn(LineSource& source, bool end_ends_message,
                     std::string message, IsDone is_done) {
  while (!is_done(message)) {
    TC_ASSIGN_OR_RETURN(const Input next, source.Read(/*goes_on=*/true));
    if (next.event == InputEvent::kEnd) {
      if (end_ends_message) break;
      return next;
    }
    message += "\n" + next.text;
    if (next.event == InputEvent::kCtrlC) {
      return Input{InputEvent::kCtrlC, message};
    }
  }
  return Input{InputEvent::kText, message};
}

// Cuts the quotes off, and a line end that only parts them from the text.
std::string InsideQuotes(std::string_view text) {
  text.remove_prefix(kQuotes.size());
  if (text.ends_with(kQuotes)) {
    text.remove_suffix(kQuotes.size());
    if (text.ends_with('\n')) text.remove_suffix(1);
  }
  if (text.starts_with('\n')) text.remove_prefix(1);
  return std::string(text);
}

}  // namespace

Result<Input> ReadMessage(LineSource& source, bool end_ends_message) {
  TC_ASSIGN_OR_RETURN(Input input, source.Read(/*goes_on=*/false));
  if (input.event != InputEvent::kText) return input;
  if (input.text.starts_with('/') &&
      input.text.find('\n') == std::string::npos) {
    input.event = InputEvent::kCommand;
    return input;
  }
  if (input.text.starts_with(kQuotes)) {
    TC_ASSIGN_OR_RETURN(
        input,
        ReadOn(source, end_ends_message, input.text, [](std::string_view text) {
          return text.size() >= 2 * kQuotes.size() && text.ends_with(kQuotes);
        }));
    if (input.event == InputEvent::kText) input.text = InsideQuotes(input.text);
    return input;
  }
  return ReadOn(source, end_ends_message, input.text, [](std::string& text) {
    if (!text.ends_with('\\')) return true;
    text.pop_back();
    return false;
  });
}

}  // namespace thermocline::cli
