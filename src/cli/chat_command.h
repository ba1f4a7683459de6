// `thermocline run` as a chat.
#ifndef THERMOCLINE_CLI_CHAT_COMMAND_H_
#define THERMOCLINE_CLI_CHAT_COMMAND_H_

#include <optional>
#include <string>

#include "base/status.h"
#include "cli/run_flags.h"
#include "model/model.h"
#include "text/chat_template.h"

namespace thermocline::cli {

// Opens the model and chats at the terminal, or with what is at both ends of
// standard input and output.
Status RunChat(const RunFlags& flags);

// Continues a text: `run` without a chat (run_command.cc).
Status RunText(const RunFlags& flags);

// A format, and what a model's own template writes behind its header of an
// answer (text::AnswerStartOf).
struct ChosenChat {
  const text::ChatTemplate* format;
  std::string answer_start;
};

// The format by its name, else the model's own (tokenizer.chat_template;
// an empty one is none).
// kUnsupported: it has none, or none that is known; the message lists names.
// kCorrupt: the key is no text. Requires a model with a tokenizer.
Result<ChosenChat> ChooseChatTemplate(const std::optional<std::string>& name,
                                      const model::Model& model);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_CHAT_COMMAND_H_
