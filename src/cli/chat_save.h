// A conversation as a file.
#ifndef THERMOCLINE_CLI_CHAT_SAVE_H_
#define THERMOCLINE_CLI_CHAT_SAVE_H_

#include <span>
#include <string>

#include "base/status.h"
#include "decode/conversation.h"

namespace thermocline::cli {

// "user:", the text, an empty line; and so on; an answer's thoughts before it.
std::string FormatAsText(std::span<const decode::ChatMessage> messages);

// A list of objects {"role", "content"}, with "reasoning_content" where an
// answer has thoughts. Bytes that are not UTF-8 become
// U+FFFD.
std::string FormatAsJson(std::span<const decode::ChatMessage> messages);

// Writes the messages, as JSON where the name ends in .json, whole or not at
// all. kInvalidArgument: no name, or one of `inputs`. kIo.
Status SaveConversation(std::span<const decode::ChatMessage> messages,
                        const std::string& path,
                        std::span<const std::string> inputs);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_CHAT_SAVE_H_
