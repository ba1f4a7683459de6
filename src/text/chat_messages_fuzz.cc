// Conversations from outside: JSON of any bytes, checked, made ready for a
// template, and written in a named format, to the next answer's beginning or to
// the end of the last message's content.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/check.h"
#include "text/chat_messages.h"
#include "text/named_format.h"
#include "text/small_vocabs.h"

namespace text = thermocline::text;

namespace {

void CheckParts(std::span<const text::TextPart> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    TC_CHECK(!parts[i].text.empty());
    TC_CHECK(i == 0 || parts[i].is_markup != parts[i - 1].is_markup);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizer = *text::Tokenizer::Create(text::SmallBpeVocab());
  static const auto format = *text::NamedFormat::Create(
      *text::FindChatTemplate("chatml", *tokenizer), *tokenizer);
  const auto json = text::ParseJson(
      std::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (!json.has_value()) return 0;
  const auto parts = format->Render({.messages = &*json});
  if (!text::CheckMessages(*json).has_value()) {
    TC_CHECK(!parts.has_value());
    return 0;
  }
  for (const auto arguments :
       {text::CallArguments::kObjects, text::CallArguments::kTexts}) {
    TC_CHECK(text::CheckMessages(text::MessagesForTemplate(*json, arguments)));
  }
  const auto continued =
      format->Render({.messages = &*json, .continue_final_message = true});
  if (continued.has_value()) CheckParts(*continued);
  if (!parts.has_value()) return 0;
  CheckParts(*parts);
  if (!continued.has_value()) return 0;
  TC_CHECK(text::Join(*parts).starts_with(text::Join(*continued)));
  return 0;
}
