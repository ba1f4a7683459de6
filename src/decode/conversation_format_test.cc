// Conversations whose format writes the past otherwise than the present, as
// the templates of models that think do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/conversation.h"
#include "decode/test_session.h"

namespace thermocline::decode {
namespace {

using ::testing::HasSubstr;
using text::TextPart;
using text::TokenId;

constexpr TokenId kEndToken = 2;

const text::Tokenizer& Vocabulary() { return *Stories()->tokenizer(); }

Tokens WholeText(const std::string& text) {
  return *Vocabulary().Encode(text,
                              {.add_special = true, .parse_special = true});
}

// "U:hi\nA:(thoughts)yes</s>"; thoughts of the last answer may stay, earlier
// ones go.
class ThinkingFormat final : public text::ChatFormat {
 public:
  ThinkingFormat() { EndAnswersAt({}); }
  void EndAnswersAt(std::vector<TokenId> tokens) {
    Traits traits;
    traits.name = "a test's";
    traits.end.tokens = std::move(tokens);
    traits.reasoning = {"(", ")"};
    SetTraits(std::move(traits));
  }

  bool opens = false;
  bool keeps_last_thoughts = false;
  mutable int num_renderings = 0;
  int fail_at = -1;

 private:
  Result<std::vector<TextPart>> RenderAll(
      const text::RenderRequest& request) const override {
    ++num_renderings;
    if (num_renderings == fail_at) {
      return Fail(ErrorCode::kInvalidArgument, "no more than that");
    }
    std::vector<TextPart> parts;
    const auto& messages = *request.messages;
    for (size_t i = 0; i < messages.size(); ++i) {
      const auto& message = messages[i];
      const bool is_user = message["role"] == "user";
      text::AppendPart(is_user ? "U:" : "A:", true, &parts);
      if (message.contains("reasoning_content") && keeps_last_thoughts &&
          i + 2 == messages.size()) {
        text::AppendPart("(", true, &parts);
        text::AppendPart(message["reasoning_content"].get<std::string>(), false,
                         &parts);
        text::AppendPart(")", true, &parts);
      }
      text::AppendPart(message["content"].get<std::string>(), false, &parts);
      text::AppendPart(is_user ? "\n" : "</s>", true, &parts);
    }
    text::AppendPart(opens ? "A:(" : "A:", true, &parts);
    return parts;
  }
};

struct Heard {
  std::string text, thoughts;
};

class ThinkingTest : public ::testing::Test {
 protected:
  void Start(Tokens script) {
    session = std::make_unique<ScriptedSession>(Stories(), std::move(script));
    auto made = Conversation::Create(*session, {.format = &format});
    ASSERT_TRUE(made.has_value());
    conversation = *std::move(made);
  }

  Heard Say(const std::string& text) {
    Heard heard;
    const auto report = conversation->Say(
        text, Greedy(),
        [&](std::string_view piece) {
          heard.text += piece;
          return true;
        },
        [&](std::string_view piece) {
          heard.thoughts += piece;
          return true;
        });
    EXPECT_TRUE(report.has_value());
    if (report.has_value()) computed = report->num_prompt_tokens;
    return heard;
  }

  ThinkingFormat format;
  std::unique_ptr<ScriptedSession> session;
  std::unique_ptr<Conversation> conversation;
  int64_t computed = 0;  // of the last prompt
};

TEST_F(ThinkingTest, ThoughtsAndAnswerComeApart) {
  Start(Ids("(so it is) Tim") + Tokens{kEndToken});
  const Heard heard = Say("Who?");
  EXPECT_EQ(heard.text, "Tim");
  EXPECT_EQ(heard.thoughts, "so it is");
  ASSERT_EQ(conversation->messages().size(), 2u);
  EXPECT_EQ(conversation->messages()[1].text, "Tim");
  EXPECT_EQ(conversation->messages()[1].reasoning, "so it is");
  EXPECT_EQ(session->held, WholeText("U:Who?\nA:") + Ids("(so it is) Tim"));
}

TEST_F(ThinkingTest, AnswersMayBeginInsideThoughts) {
  format.opens = true;
  Start(Ids("ok) b") + Tokens{kEndToken});
  const Heard heard = Say("a");
  EXPECT_EQ(heard.thoughts, "ok");
  EXPECT_EQ(heard.text, "b");
}

// Where the format still writes the thoughts as they were, the generated tokens
// stay, and only the new turn is computed.
TEST_F(ThinkingTest, WhatIsWrittenAsItWasIsNotComputedAgain) {
  format.keeps_last_thoughts = true;
  Start(Ids("(m)Tim") + Tokens{kEndToken} + Ids("x") + Tokens{kEndToken});
  Say("Who?");
  const Tokens first = session->held;
  Say("a");
  ASSERT_GT(session->held.size(), first.size());
  EXPECT_TRUE(
      std::ranges::equal(first, std::span(session->held).first(first.size())));
  EXPECT_EQ(session->held[first.size()], kEndToken);
  EXPECT_EQ(computed + static_cast<int64_t>(first.size()) + 1,
            session->position());
  EXPECT_EQ(session->decoded, session->held);
}

// Where the thoughts go, all behind them is computed anew, and nothing in front
// of them.
TEST_F(ThinkingTest, ARewrittenPastCostsWhatChanges) {
  Start(Ids("(m)Tim") + Tokens{kEndToken} + Ids("x") + Tokens{kEndToken});
  Say("Who?");
  Say("a");
  const Tokens prompt = WholeText("U:Who?\nA:Tim</s>U:a\nA:");
  EXPECT_EQ(session->held, prompt + Ids("x"));
  const auto common = static_cast<int64_t>(WholeText("U:Who?\nA:").size());
  EXPECT_EQ(computed, static_cast<int64_t>(prompt.size()) - common);
}

TEST_F(ThinkingTest, ARefusedRenderingChangesNothing) {
  Start(Ids("Tim") + Tokens{kEndToken} + Ids("x") + Tokens{kEndToken});
  Say("Who?");
  const Tokens held = session->held;
  format.fail_at = format.num_renderings + 1;
  const auto refused = conversation->Say("a", Greedy(), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "a test's: no more than that");
  EXPECT_EQ(session->held, held);
  EXPECT_EQ(conversation->messages().size(), 2u);
  EXPECT_EQ(Say("b").text, "x");
}

TEST_F(ThinkingTest, TheFormatsTokensEndAnAnswer) {
  const TokenId q = Ids("q")[0];
  format.EndAnswersAt({q});
  Start(Ids("Timqx"));
  EXPECT_EQ(Say("Who?").text, "Tim");
  EXPECT_EQ(session->held, WholeText("U:Who?\nA:") + Ids("Tim"));
}

TEST_F(ThinkingTest, AnswerAgainReplacesThoughtsToo) {
  Start(Ids("(m)Tim") + Tokens{kEndToken} + Ids("(n)Ann") + Tokens{kEndToken});
  Say("Who?");
  std::string thoughts;
  const auto report = conversation->AnswerAgain(
      Greedy(), [](std::string_view) { return true; },
      [&](std::string_view piece) {
        thoughts += piece;
        return true;
      });
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->num_prompt_tokens, 1);
  EXPECT_EQ(thoughts, "n");
  EXPECT_EQ(conversation->messages().back().text, "Ann");
  EXPECT_EQ(conversation->messages().back().reasoning, "n");
}

// Without a receiver they are kept all the same.
TEST_F(ThinkingTest, ThoughtsNeedNoReceiver) {
  Start(Ids("(m)Tim") + Tokens{kEndToken});
  std::string text;
  ASSERT_TRUE(conversation
                  ->Say("Who?", Greedy(),
                        [&](std::string_view piece) {
                          text += piece;
                          return true;
                        })
                  .has_value());
  EXPECT_EQ(text, "Tim");
  EXPECT_EQ(conversation->messages().back().reasoning, "m");
}

TEST_F(ThinkingTest, AnAnswerThatIsAllThoughts) {
  Start(Ids("(m and so") + Tokens{kEndToken});
  const Heard heard = Say("Who?");
  EXPECT_EQ(heard.text, "");
  EXPECT_EQ(heard.thoughts, "m and so");
  EXPECT_TRUE(conversation->has_answer());
}

}  // namespace
}  // namespace thermocline::decode
