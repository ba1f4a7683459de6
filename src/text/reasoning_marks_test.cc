#include "text/reasoning_marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/test_chat.h"

namespace thermocline::text {
namespace {

using ::testing::ElementsAre;

TEST(FindReasoningMarksTest, OfTheSourceElseOfTheVocabulary) {
  const auto plain = MakeChatTokenizer(SmallBpeVocab());
  const auto thinks =
      MakeChatTokenizer(SmallBpeVocab(), {"<think>", "</think>"});
  struct MarksCase {
    const char* source;
    const Tokenizer* tokenizer;
    std::string_view begin, end;
  };
  const MarksCase cases[] = {
      {"'<think>\\n' + t + '</think>'", nullptr, "<think>", "</think>"},
      {"'<think>\\n' + t + '</think>'", plain.get(), "<think>", "</think>"},
      {"m.split('</think>')[-1]", plain.get(), "", ""},
      {"m.split('</think>')[-1]", thinks.get(), "<think>", "</think>"},
      {"", thinks.get(), "<think>", "</think>"},
      {"'<|channel>thought\\n' + t + '<channel|>'", thinks.get(),
       "<|channel>thought", "<channel|>"},
      {"'<|channel|>analysis<|message|>' + t + '<|end|>' <think> </think>",
       nullptr, "<|channel|>analysis<|message|>", "<|end|>"},
      {"'[THINK]' + t + '[/THINK]'", nullptr, "[THINK]", "[/THINK]"},
      {"<seed:think>{{ t }}</seed:think>", nullptr, "<seed:think>",
       "</seed:think>"},
      {"<|END_THINKING|><|START_THINKING|>", nullptr, "<|START_THINKING|>",
       "<|END_THINKING|>"},
      {"", nullptr, "", ""}};
  for (const MarksCase& each : cases) {
    const ReasoningMarks marks =
        FindReasoningMarks(each.source, each.tokenizer);
    EXPECT_EQ(marks.begin, each.begin) << each.source;
    EXPECT_EQ(marks.end, each.end) << each.source;
    EXPECT_EQ(marks.empty(), each.begin.empty());
  }
}

TEST(OpensReasoningTest, WhereThePromptEndsWithTheMark) {
  const ReasoningMarks marks = FindReasoningMarks("<think></think>", nullptr);
  const auto opens = [&](const std::vector<TextPart>& parts) {
    return OpensReasoning(marks, parts);
  };
  EXPECT_TRUE(opens({{"hi", false}, {"<|assistant|><think>\n", true}}));
  EXPECT_FALSE(opens({{"<think>\n\n</think>\n\n", true}}));
  EXPECT_FALSE(opens({{"<think> first", true}}));
  EXPECT_FALSE(opens({{"<think>\n", false}}));  // a message's
  EXPECT_FALSE(opens({}));
  EXPECT_FALSE(OpensReasoning({}, std::vector<TextPart>{{"a", true}}));
}

TEST(TokensOfTest, TheMarksSpecialTokens) {
  const auto tokenizer = MakeChatTokenizer(
      SmallBpeVocab(),
      {"<|message|>", "<|end|>", "<|start|>", "<|channel|>", "<|call|>"});
  const auto first = static_cast<TokenId>(SmallBpeVocab().tokens.size());
  const auto marks =
      FindReasoningMarks("<|channel|>analysis<|message|><|end|>", nullptr);
  const auto tokens = TokensOf(marks, *tokenizer);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_THAT(*tokens, ElementsAre(first, first + 1, first + 2, first + 3));
  EXPECT_TRUE(TokensOf({}, *tokenizer)->empty());
}

}  // namespace
}  // namespace thermocline::text
