#include "text/continue_message.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "text/chat_format.h"
#include "text/jinja/characters.h"

namespace thermocline::text {
namespace {

using jinja::Json;

// Ends in a space, to tell whether the template trims.
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kTagWithoutSpace = kTag.substr(0, kTag.size() - 1);

// As Python's str.strip, whose white space is Unicode's.
std::string_view RightTrimmed(std::string_view text) {
  while (!text.empty()) {
    const jinja::Character last = jinja::LastCharacter(text);
    if (!jinja::IsSpaceCharacter(last.code)) break;
    text.remove_suffix(last.num_bytes);
  }
  return text;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty()) {
    const jinja::Character first = jinja::FirstCharacter(text);
    if (!jinja::IsSpaceCharacter(first.code)) break;
    text.remove_prefix(first.num_bytes);
  }
  return RightTrimmed(text);
}

bool HasText(const Json& part) {
  return part.is_object() && part.contains("text") && part["text"].is_string();
}

// The text that is continued; null: there is none.
Json* LastText(Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return nullptr;
  if (content->is_string()) return &*content;
  if (!content->is_array()) return nullptr;
  const auto part = std::find_if(content->rbegin(), content->rend(), HasText);
  return part == content->rend() ? nullptr : &(*part)["text"];
}

// In linear time, whatever both hold.
bool Contains(std::string_view text, std::string_view part) {
  return part.empty() ||
         memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

// Leaves the first `size` bytes.
void Truncate(size_t size, std::vector<TextPart>* parts) {
  auto part = parts->begin();
  for (; part != parts->end() && size > 0; ++part) {
    if (part->text.size() > size) part->text.resize(size);
    size -= part->text.size();
  }
  parts->erase(part, parts->end());
}

}  // namespace

Result<std::string> AppendContinueTag(ChatMessages* messages) {
  if (messages->empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "there is no message to be continued");
  }
  Json* const text = LastText(messages->back());
  if (text == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                "message {}: there is no text in its content to be continued",
                messages->size());
  }
  auto& tagged = text->get_ref<std::string&>();
  std::string was = tagged;
  tagged += kTag;
  return was;
}

Status CutAtContinueTag(std::string_view text, std::vector<TextPart>* parts) {
  const std::string whole = Join(*parts);
  const size_t at = whole.rfind(kTagWithoutSpace);
  std::string_view front = std::string_view(whole).substr(0, at);
  // Templates may write calls, or a line end's escape, in between.
  const bool is_ours =
      RightTrimmed(front).ends_with(Trimmed(text)) ||
      (whole.find(kTagWithoutSpace) == at && Contains(front, Trimmed(text)));
  if (at == std::string::npos || !is_ours) {
    return Fail(ErrorCode::kInvalidArgument,
                "the last message cannot be continued: its content does not "
                "come out as it is, the template leaves it out or changes it");
  }
  if (!std::string_view(whole).substr(at).starts_with(kTag)) {
    front = RightTrimmed(front);
  }
  Truncate(front.size(), parts);
  return {};
}

}  // namespace thermocline::text
