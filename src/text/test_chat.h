// For tests: vocabularies with marks of chats, and conversations.
#ifndef THERMOCLINE_TEXT_TEST_CHAT_H_
#define THERMOCLINE_TEXT_TEST_CHAT_H_

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>

#include "text/chat_messages.h"
#include "text/small_vocabs.h"
#include "text/tokenizer.h"

namespace thermocline::text {

// The small vocabulary with these special tokens behind it.
inline std::unique_ptr<const Tokenizer> MakeChatTokenizer(
    Vocab vocab, std::initializer_list<std::string_view> special = {},
    TokenType type = TokenType::kControl) {
  for (const std::string_view text : special) AddToken(&vocab, text, type);
  auto tokenizer = Tokenizer::Create(std::move(vocab));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *std::move(tokenizer);
}

// Messages of these roles and contents.
inline ChatMessages MakeMessages(
    std::initializer_list<std::pair<const char*, const char*>> said) {
  ChatMessages messages = ChatMessages::array();
  for (const auto& [role, content] : said) {
    messages.push_back({{"role", role}, {"content", content}});
  }
  return messages;
}

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_TEST_CHAT_H_
