#include "text/chat_messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "text/utf8.h"

namespace thermocline::text {
namespace {

using jinja::Json;

constexpr size_t kMaxDepth = 200;
// Objects that keep their order find a key by looking at all of them.
constexpr size_t kMaxKeys = 4096;

// The parser's message without its own number in front:
// "[json.exception.parse_error.101] parse error at line 1, ...". It quotes a
// bad token, which may be as long as the text.
std::string Reason(const Json::exception& error) {
  constexpr size_t kMaxBytes = 200;
  std::string_view text = error.what();
  const size_t end = text.find("] ");
  if (end != std::string_view::npos) text.remove_prefix(end + 2);
  if (text.size() <= kMaxBytes) return std::string(text);
  text = text.substr(0, kMaxBytes);
  text.remove_suffix(IncompleteUtf8Suffix(text));
  return std::string(text) + "...";
}

// Looks through a text, valid or not, before anything is made of it. The parser
// can tell as much, but takes time with the square of what an object holds
// then.
Status CheckExtent(std::string_view text, std::string_view what) {
  std::array<size_t, kMaxDepth + 1> num_keys = {};  // of what is open there
  size_t depth = 0;
  bool is_in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      is_in_string = !is_in_string;
    } else if (is_in_string) {
      if (c == '\\') ++i;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) {
        return Fail(ErrorCode::kCorrupt, "{}: nested deeper than {} levels",
                    what, kMaxDepth);
      }
      num_keys[depth] = 0;
    } else if (c == '}' || c == ']') {
      if (depth > 0) --depth;
    } else if (c == ':' && ++num_keys[depth] > kMaxKeys) {
      return Fail(ErrorCode::kCorrupt, "{}: an object has more than {} keys",
                  what, kMaxKeys);
    }
  }
  return {};
}

bool IsCall(const Json& message) {
  return message.is_object() && message.contains("tool_calls");
}

Json WithArguments(const Json& value, CallArguments wanted) {
  if (wanted == CallArguments::kTexts) {
    if (value.is_string()) return value;
    return value.dump(-1, ' ', /*ensure_ascii=*/false,
                      Json::error_handler_t::replace);
  }
  if (!value.is_string()) return value;
  Result<Json> parsed = ParseJson(value.get_ref<const std::string&>(), "");
  return parsed.has_value() && parsed->is_object() ? *std::move(parsed) : value;
}

// A call has its arguments in "function", or itself.
void ConvertCall(Json& call, CallArguments wanted) {
  if (!call.is_object()) return;
  const auto function = call.find("function");
  Json& holder =
      function != call.end() && function->is_object() ? *function : call;
  const auto arguments = holder.find("arguments");
  if (arguments != holder.end()) {
    *arguments = WithArguments(*arguments, wanted);
  }
}

Json MessageForTemplate(const Json& message, CallArguments arguments) {
  Json made = Json::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) made[key] = value;
  }
  const auto reasoning = made.find("reasoning_content");
  if (reasoning != made.end() && !made.contains("thinking")) {
    Json thinking = *reasoning;  // a reference would not outlive the insertion
    made["thinking"] = std::move(thinking);
  }
  const auto calls = made.find("tool_calls");
  if (calls != made.end() && calls->is_array()) {
    for (Json& call : *calls) ConvertCall(call, arguments);
  }
  return made;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view what) {
  TC_RETURN_IF_ERROR(CheckExtent(text, what));
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kCorrupt, "{}: not valid JSON: {}", what,
                Reason(error));
  }
}

Status CheckMessages(const ChatMessages& messages) {
  if (!messages.is_array()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the messages are no list of objects with \"role\" and "
                "\"content\", but {} {}",
                messages.is_object() || messages.is_array() ? "an" : "a",
                messages.type_name());
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "message {} is no object with \"role\" and \"content\"",
                  i + 1);
    }
    const auto role = messages[i].find("role");
    if (role == messages[i].end() || !role->is_string()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "message {} has no \"role\" that is a text, as \"user\"",
                  i + 1);
    }
  }
  return {};
}

ChatMessages MessagesForTemplate(const ChatMessages& messages,
                                 CallArguments arguments) {
  ChatMessages made = Json::array();
  for (const Json& message : messages) {
    made.push_back(MessageForTemplate(message, arguments));
  }
  return made;
}

bool HasCalls(const ChatMessages& messages) {
  return std::ranges::any_of(messages, IsCall);
}

bool FillContentOfCalls(ChatMessages* messages) {
  bool has_filled = false;
  for (Json& message : *messages) {
    if (!IsCall(message)) continue;
    Json& content = message["content"];  // null if there is none
    if (!content.is_null()) continue;
    content = "";
    has_filled = true;
  }
  return has_filled;
}

}  // namespace thermocline::text
