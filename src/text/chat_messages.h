// Conversations as OpenAI's API has them: checked, and as templates want them.
#ifndef THERMOCLINE_TEXT_CHAT_MESSAGES_H_
#define THERMOCLINE_TEXT_CHAT_MESSAGES_H_

#include <string_view>

#include "base/status.h"
#include "text/jinja/template.h"

namespace thermocline::text {

// A list of messages: objects with role, content (a text or a list of parts),
// and what else they have (tool_calls, reasoning_content, ...).
using ChatMessages = jinja::Json;

// JSON from outside; objects keep the order of their keys. kCorrupt: it is
// none, with the place; it is nested deeper than 200 levels, which nothing that
// reads it would stand; an object has more than 4096 keys, each of which costs
// a look at those before it. `what` begins the message: "--tools tools.json".
Result<jinja::Json> ParseJson(std::string_view text, std::string_view what);

// kInvalidArgument: not a list, a member that is no object or has no role that
// is a text. The message counts from 1.
Status CheckMessages(const ChatMessages& messages);

// How the arguments of calls are handed over: templates want an object, some a
// text.
enum class CallArguments { kObjects, kTexts };

// What transformers hands to a template: no members that are null, and
// `thinking` beside `reasoning_content`. Arguments that are a text which holds
// no object stay a text. Requires CheckMessages.
ChatMessages MessagesForTemplate(const ChatMessages& messages,
                                 CallArguments arguments);

// Whether the messages have calls, so that it matters how arguments are handed
// over.
bool HasCalls(const ChatMessages& messages);

// Gives messages with calls that have no content, or null, an empty text, which
// some templates need. Returns whether there were any. Requires CheckMessages.
bool FillContentOfCalls(ChatMessages* messages);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_CHAT_MESSAGES_H_
