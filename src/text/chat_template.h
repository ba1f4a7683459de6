// The usual formats of chats, as data.
#ifndef THERMOCLINE_TEXT_CHAT_TEMPLATE_H_
#define THERMOCLINE_TEXT_CHAT_TEMPLATE_H_

#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace thermocline::text {

// What stands around the three kinds of text. {bos} and {eos} stand for the
// texts of these tokens; a BOS at the very start is the tokenizer's business.
struct ChatTemplate {
  std::string_view name;
  std::string_view before_system, after_system;
  std::string_view before_user;
  std::string_view after_user;    // the answer begins behind it
  std::string_view after_answer;  // ends an answer
  // Where a model that did not end its answer would begin the next turn.
  std::string_view stop;
  bool system_in_user = false;  // the system prompt stands behind before_user
  bool trims = false;  // no white space around the system prompt and messages
};

// In the order in which documents list them.
std::vector<std::string_view> ChatTemplateNames();

// The format of that name in the variant for this vocabulary (Mistral and
// DeepSeek have several). Null: no such name. Lives forever.
const ChatTemplate* FindChatTemplate(std::string_view name,
                                     const Tokenizer& tokenizer);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_CHAT_TEMPLATE_H_
