// An answer that goes on where the last message of a conversation ends, as in
// Hugging Face's transformers (continue_final_message).
//
// Only the template knows what it writes behind a content. So a tag goes behind
// the last message's content, and the rendering is cut where the tag came out.
#ifndef THERMOCLINE_TEXT_CONTINUE_MESSAGE_H_
#define THERMOCLINE_TEXT_CONTINUE_MESSAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat_messages.h"
#include "text/tokenizer.h"

namespace thermocline::text {

// Puts the tag behind the content of the last message, or behind the last part
// with text of a content in parts. Returns that text as it was. Requires
// CheckMessages. kInvalidArgument: no message, or no text in it.
Result<std::string> AppendContinueTag(ChatMessages* messages);

// Cuts a rendering of such messages in front of the tag: at its last place,
// since messages may write it too. `text` is what AppendContinueTag returned.
// Where a template cut the tag's own space off, the white space in front goes
// too, as it went from the content of other messages.
// kInvalidArgument: the tag, or `text` in front of it, is not there; directly
// in front, if the tag came out several times. Linear in both.
Status CutAtContinueTag(std::string_view text, std::vector<TextPart>* parts);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_CONTINUE_MESSAGE_H_
