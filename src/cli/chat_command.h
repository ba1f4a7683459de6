// `thermocline run` as a chat.
#ifndef THERMOCLINE_CLI_CHAT_COMMAND_H_
#define THERMOCLINE_CLI_CHAT_COMMAND_H_

#include "base/status.h"
#include "cli/run_flags.h"

namespace thermocline::cli {

// Opens the model and chats at the terminal, or with what is at both ends of
// standard input and output.
Status RunChat(const RunFlags& flags);

// Continues a text: `run` without a chat (run_command.cc).
Status RunText(const RunFlags& flags);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_CHAT_COMMAND_H_
