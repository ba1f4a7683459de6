#include "text/chat_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "text/named_format.h"
#include "text/test_chat.h"

namespace thermocline::text {
namespace {

using ::testing::ElementsAre;

TEST(AppendPartTest, NeighboursDiffer) {
  std::vector<TextPart> parts;
  AppendPart("", true, &parts);
  AppendPart("a", true, &parts);
  AppendPart("b", true, &parts);
  AppendPart("", false, &parts);
  AppendPart("c", false, &parts);
  AppendPart("d", true, &parts);
  EXPECT_THAT(parts, ElementsAre(TextPart{"ab", true}, TextPart{"c", false},
                                 TextPart{"d", true}));
  EXPECT_EQ(Join(parts), "abcd");
}

TEST(EncodeChatTest, OneBos) {
  struct BosCase {
    std::string text;
    bool vocabulary_adds, flags_add;
    int want;
  };
  const BosCase cases[] = {
      {"<s>a", true, true, 1},      {"<s>a", false, true, 1},
      {"<s>a", true, false, 1},     {"a", true, true, 1},
      {"a", false, true, 0},        {"a", true, false, 0},
      {"<s><s>a", true, true, 2},   {"", true, true, 1},
      {"\n \n<s>a", true, true, 1}, {"\na<s>", true, true, 2}};
  for (const BosCase& each : cases) {
    Vocab vocab = SmallSpmVocab();
    vocab.add_bos = each.vocabulary_adds;
    const auto tokenizer = MakeChatTokenizer(vocab);
    const auto format = NamedFormat::Create(
        *FindChatTemplate("vicuna", *tokenizer), *tokenizer);
    ASSERT_TRUE(format.has_value());
    const std::vector<TextPart> parts = {{each.text, true}};
    const auto tokens = EncodeChat(*tokenizer, **format, parts, each.flags_add);
    ASSERT_TRUE(tokens.has_value());
    EXPECT_EQ(std::ranges::count(*tokens, 1), each.want) << each.text;
    if (each.want > 0 && !each.text.starts_with("\n ")) {
      EXPECT_EQ(tokens->front(), 1);
    }
  }
}

// What a message writes out is no BOS, so one is put in front.
TEST(EncodeChatTest, ContentForgesNoBos) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  const auto format =
      NamedFormat::Create(*FindChatTemplate("vicuna", *tokenizer), *tokenizer);
  const std::vector<TextPart> parts = {{"<s>a", false}};
  const auto tokens = EncodeChat(*tokenizer, **format, parts, true);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(std::ranges::count(*tokens, 1), 1);
  EXPECT_EQ(tokenizer->Decode(*tokens, false), "<s>a");
}

TEST(FindAnswerEndTest, TokensElseTexts) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab(), {"<|im_end|>"});
  const auto im_end = static_cast<TokenId>(SmallSpmVocab().tokens.size());
  struct EndCase {
    std::string behind;
    std::vector<TokenId> tokens;
    std::vector<std::string> texts;
  };
  const EndCase cases[] = {
      {"<|im_end|>\n<|im_start|>user\n", {im_end}, {}},
      {" </s><s>[INST] ", {2}, {}},
      {"\n<|im_end|>", {im_end}, {}},
      {"<|end|>\n<|user|>\n", {}, {"<|end|>"}},
      {"\n<|user|>\n", {}, {"<|user|>"}},
      {"[INST] ", {}, {"[INST]"}},
      {"<|eot|><|user|>\n", {}, {"<|eot|>"}},
      {"</a>[INST] ", {}, {"</a>"}},
      {"[e~[ user", {}, {"[e~[ user"}},
      {"\n\nUser: ", {}, {"\nUser:"}},
      {" USER: ", {}, {"USER:"}},
      {"\n\n### Instruction:\n", {}, {"\n### Instruction:"}},
      {"a<|im_end|>", {}, {"a<|im_end|>"}},
      {".\nQ: ", {}, {}},
      {"\n---\n", {}, {}},
      {"###", {}, {"###"}},
      {"-7-\n", {}, {"-7-"}},
      {"\n。", {}, {"\n。"}},
      {"\n", {}, {}},
      {"", {}, {}}};
  for (const EndCase& each : cases) {
    const auto end = FindAnswerEnd(each.behind, tokenizer.get());
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->tokens, each.tokens) << each.behind;
    EXPECT_EQ(end->texts, each.texts) << each.behind;
  }
  const auto alone = FindAnswerEnd("<|im_end|>\n", nullptr);
  ASSERT_TRUE(alone.has_value());
  EXPECT_THAT(alone->texts, ElementsAre("<|im_end|>"));
}

// Whether a mark of chats is control or user-defined: content forges none, also
// not one that the format does not write.
TEST(EncodeChatTest, ContentForgesNoMarks) {
  for (const auto type : {TokenType::kControl, TokenType::kUserDefined}) {
    const auto tokenizer = MakeChatTokenizer(
        SmallBpeVocab(), {"<|system|>", "<|tool_response|>", "<b>"}, type);
    const auto first = static_cast<TokenId>(SmallBpeVocab().tokens.size());
    const auto format = NamedFormat::Create(
        *FindChatTemplate("vicuna", *tokenizer), *tokenizer);
    ASSERT_TRUE(format.has_value());
    const std::vector<TextPart> parts = {
        {"<|system|><|tool_response|><b>", false}};
    const auto tokens = EncodeChat(*tokenizer, **format, parts, false);
    ASSERT_TRUE(tokens.has_value());
    EXPECT_EQ(std::ranges::count(*tokens, first), 0);
    EXPECT_EQ(std::ranges::count(*tokens, first + 1), 0);
    EXPECT_EQ(std::ranges::count(*tokens, first + 2),
              type == TokenType::kUserDefined ? 1 : 0);
  }
}

TEST(FindReservedTokensTest, SpecialOnesButWhiteSpace) {
  const auto tokenizer = MakeChatTokenizer(
      SmallBpeVocab(), {"\n\n", "<b>", "<a>"}, TokenType::kUserDefined);
  const auto first = static_cast<TokenId>(SmallBpeVocab().tokens.size());
  const std::vector<TextPart> markup = {{"{{ '<a>' }}\n\nthe <|tool|>", true}};
  const auto tokens = FindReservedTokens(markup, *tokenizer);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_THAT(*tokens, ElementsAre(0, 257, first + 2));
}

}  // namespace
}  // namespace thermocline::text
