// What a person says in a chat: lines, and messages put together from them.
#ifndef THERMOCLINE_CLI_CHAT_INPUT_H_
#define THERMOCLINE_CLI_CHAT_INPUT_H_

#include <string>

#include "base/status.h"

namespace thermocline::cli {

enum class InputEvent { kText, kCommand, kEnd, kCtrlC };

struct Input {
  InputEvent event;
  std::string text;  // of kCtrlC: what was given up; of kEnd: empty
};

// Where lines come from.
class LineSource {
 public:
  virtual ~LineSource() = default;

  // The next line without its end; a pasted text may have line ends inside.
  // Never kCommand. kCtrlC: the person gave up the line, which may have been
  // empty. goes_on: it continues a message. kCancelled: a signal asks the
  // program to end. kIo.
  virtual Result<Input> Read(bool goes_on) = 0;

  // Notes what was said, for the keys that bring it back.
  virtual void Remember(const std::string& message) = 0;
};

// The next message or command. A line that ends in a backslash goes on in the
// next one; lines between """ and """ are one message. A command is one line
// that begins with a slash, and never goes on. The end of the lines
// inside a message ends it where end_ends_message, else gives it up (kEnd).
Result<Input> ReadMessage(LineSource& source, bool end_ends_message);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_CHAT_INPUT_H_
