#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "text/test_chat.h"

namespace thermocline::text {
namespace {

using ::testing::ElementsAre;

TEST(ChatTemplateTest, Names) {
  EXPECT_THAT(ChatTemplateNames(),
              ElementsAre("chatml", "llama2", "llama3", "mistral", "phi3",
                          "gemma", "zephyr", "tulu", "openchat", "vicuna",
                          "alpaca", "deepseek"));
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  for (const std::string_view name : ChatTemplateNames()) {
    ASSERT_NE(FindChatTemplate(name, *tokenizer), nullptr) << name;
  }
  EXPECT_EQ(FindChatTemplate("jinja", *tokenizer), nullptr);
  EXPECT_EQ(FindChatTemplate("", *tokenizer), nullptr);
}

TEST(ChatTemplateTest, TheVocabularyTellsVariants) {
  struct VariantCase {
    std::string_view name;
    std::initializer_list<std::string_view> special;
    std::string_view before_user, before_system;
  };
  const VariantCase cases[] = {
      {"mistral", {}, "[INST] ", ""},
      {"mistral", {"[INST]"}, "[INST]", ""},
      {"mistral", {"[INST]", "[SYSTEM_PROMPT]"}, "[INST]", "[SYSTEM_PROMPT]"},
      {"deepseek", {}, "User: ", ""},
      {"deepseek", {"<|EOT|>"}, "### Instruction:\n", ""},
      {"deepseek", {"<|EOT|>", "<｜User｜>"}, "<｜User｜>", ""}};
  for (const VariantCase& each : cases) {
    const auto tokenizer = MakeChatTokenizer(SmallSpmVocab(), each.special);
    const ChatTemplate& row = *FindChatTemplate(each.name, *tokenizer);
    EXPECT_EQ(row.before_user, each.before_user);
    EXPECT_EQ(row.before_system, each.before_system) << each.before_user;
  }
  // Plain text that happens to be in the vocabulary is no special token.
  const auto plain =
      MakeChatTokenizer(SmallSpmVocab(), {"[INST]"}, TokenType::kNormal);
  EXPECT_EQ(FindChatTemplate("mistral", *plain)->before_user, "[INST] ");
}

}  // namespace
}  // namespace thermocline::text
