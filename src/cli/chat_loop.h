// A chat: messages in, answers out, commands in between.
#ifndef THERMOCLINE_CLI_CHAT_LOOP_H_
#define THERMOCLINE_CLI_CHAT_LOOP_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/chat_input.h"
#include "decode/conversation.h"

namespace thermocline::cli {

// The person who chats, or the programs at both ends of a pipe.
struct ChatPartner {
  LineSource* input = nullptr;
  // Takes pieces of an answer, and the line end behind it.
  std::function<Status(std::string_view)> answer;
  // Takes pieces of the thoughts before an answer, and the line end behind
  // them.
  std::function<void(std::string_view)> think;
  // Takes a line that tells something else, without its line end.
  std::function<void(std::string_view)> tell;
  // Whether what cancelled an answer was Ctrl-C, which is then forgotten.
  std::function<bool()> take_ctrl_c;
  // A person can correct what is refused; for a program it is an error. A
  // person's end of input gives up a message begun; a program's sends it.
  bool is_person = false;
};

struct ChatLoopOptions {
  decode::GenerateOptions generate;
  std::optional<std::string> first_message;
  bool is_single_turn = false;           // the first answer is the last one
  std::vector<std::string> input_files;  // /save never replaces them
};

// Chats until the input ends, or the person says so (/exit, Ctrl-C twice in a
// row on an empty line), or the one answer that was asked for is there. Each
// answer draws with another seed: the one asked for, then the next ones.
// Errors: kCancelled when a signal or a closed output ends it; those of the
// input, the output and the session; from a program, also messages that do not
// fit the context or that the format refuses, files that /save cannot write,
// and kInvalidArgument: a command that is none. A person is told of these, and
// the conversation stays as it was.
Status RunChatLoop(decode::Conversation& conversation,
                   const ChatPartner& partner, const ChatLoopOptions& options);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_CHAT_LOOP_H_
