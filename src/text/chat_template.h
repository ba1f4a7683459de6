// How chat models want a conversation written: the usual formats, as data.
//
// A model file describes its format by a program in Jinja
// (`tokenizer.chat_template`). A file is not to be trusted, so that program is
// never run: it is searched for the texts by which these formats are known, and
// for what it writes where an answer is to begin (text/jinja_scan.h).
#ifndef THERMOCLINE_TEXT_CHAT_TEMPLATE_H_
#define THERMOCLINE_TEXT_CHAT_TEMPLATE_H_

#include <string>
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

// The format of a model's own template, any bytes. Null: none of these.
const ChatTemplate* RecognizeChatTemplate(std::string_view jinja,
                                          const Tokenizer& tokenizer);

// What a model's own template, recognised as `format`, writes behind the
// format's header of an answer: "<think>\n" where it opens the model's thoughts
// itself. Empty: nothing, or the template does not tell without being run.
// kUnsupported: it begins answers otherwise than the format, so it is another;
// the message quotes both.
Result<std::string> AnswerStartOf(const ChatTemplate& format,
                                  std::string_view jinja, const Vocab& vocab);

struct ChatTurn {
  bool is_first;
  std::string_view system;  // empty: none; of the first turn only
  std::string_view user;
  std::string_view answer_start;  // AnswerStartOf
};

// What comes before the model's answer: for the first turn from the start of
// the conversation, for others from the end of the last answer's text.
std::vector<TextPart> RenderTurn(const ChatTemplate& format, const Vocab& vocab,
                                 const ChatTurn& turn);

// The special tokens that the format writes and those that begin and end texts,
// sorted: content must not forge them.
Result<std::vector<TokenId>> ReservedTokens(const ChatTemplate& format,
                                            const Tokenizer& tokenizer);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_CHAT_TEMPLATE_H_
