#include "decode/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/test_session.h"
#include "text/named_format.h"

namespace thermocline::decode {
namespace {

using ::testing::HasSubstr;
using text::TokenId;

constexpr TokenId kBos = 1, kEos = 2;

const text::Tokenizer& Tokenizer() { return *Stories()->tokenizer(); }

// What a whole text becomes, BOS in front and markup read as such.
Tokens Whole(const std::string& text) {
  return *Tokenizer().Encode(text,
                             {.add_special = true, .parse_special = true});
}

TokenId TokenOf(const std::string& piece) {
  for (TokenId id = 3; id < Tokenizer().num_tokens(); ++id) {
    if (Tokenizer().Piece(id, false) == piece) return id;
  }
  ADD_FAILURE() << piece;
  return 0;
}

// Lives forever.
const text::ChatFormat& Named(const std::string& name) {
  static std::map<std::string, std::unique_ptr<const text::NamedFormat>> made;
  auto& format = made[name];
  if (format == nullptr) {
    format = *text::NamedFormat::Create(
        *text::FindChatTemplate(name, Tokenizer()), Tokenizer());
  }
  return *format;
}

std::unique_ptr<Conversation> Start(engine::Session& session,
                                    const text::ChatFormat& format,
                                    const std::string& system = "") {
  auto conversation =
      Conversation::Create(session, {.format = &format, .system = system});
  EXPECT_TRUE(conversation.has_value());
  return *std::move(conversation);
}

std::unique_ptr<Conversation> Start(engine::Session& session,
                                    const std::string& format,
                                    const std::string& system = "") {
  return Start(session, Named(format), system);
}

struct Said {
  std::string text;  // as received
  GenerateReport report;
};

Said Say(Conversation& conversation, std::string_view text,
         const GenerateOptions& options = Greedy()) {
  Said said = {};
  auto report = conversation.Say(text, options, [&](std::string_view piece) {
    EXPECT_FALSE(piece.empty());
    said.text += piece;
    return true;
  });
  EXPECT_TRUE(report.has_value()) << report.error().message;
  if (report.has_value()) said.report = *std::move(report);
  return said;
}

std::string Transcript(const Conversation& conversation) {
  std::string text;
  for (const ChatMessage& message : conversation.messages()) {
    text += std::string(NameOf(message.role)) + ":" + message.text + "|";
  }
  return text;
}

TEST(ConversationTest, EachTurnComputesItsNewTokensOnly) {
  ScriptedSession session(
      Stories(), Ids("Tim ran") + Tokens{kEos} + Ids("ok") + Tokens{kEos});
  const auto conversation = Start(session, "vicuna", "Be kind");
  const Said first = Say(*conversation, "Who?");
  EXPECT_EQ(first.text, "Tim ran");
  EXPECT_EQ(first.report.reason, StopReason::kEndOfGeneration);
  const Tokens prompt = Whole("Be kind USER: Who? ASSISTANT:");
  EXPECT_EQ(session.held, prompt + Ids("Tim ran"));
  EXPECT_EQ(session.decoded, session.held);

  const Said second = Say(*conversation, "Why?");
  EXPECT_EQ(second.text, "ok");
  // The end marker that the model chose and did not compute comes first.
  Tokens turn = Whole("</s>USER: Why? ASSISTANT:");
  turn.erase(turn.begin());  // BOS
  EXPECT_EQ(second.report.num_prompt_tokens, static_cast<int64_t>(turn.size()));
  EXPECT_EQ(session.held, prompt + Ids("Tim ran") + turn + Ids("ok"));
  EXPECT_EQ(session.decoded, session.held);
  EXPECT_EQ(std::ranges::count(session.held, kBos), 1);
  EXPECT_EQ(Transcript(*conversation),
            "system:Be kind|user:Who?|assistant:Tim ran|user:Why?|"
            "assistant:ok|");
}

TEST(ConversationTest, WithoutBos) {
  ScriptedSession session(Stories(), {kEos});
  auto conversation = Conversation::Create(
      session, {.format = &Named("vicuna"), .system = "", .add_bos = false});
  ASSERT_TRUE(conversation.has_value());
  Say(**conversation, "Who?");
  EXPECT_EQ(std::ranges::count(session.held, kBos), 0);
  EXPECT_FALSE(session.held.empty());
}

TEST(ConversationTest, AnAnswerCutByTheTokenLimitIsClosed) {
  ScriptedSession session(Stories(), Ids("Tim") + Tokens{kEos});
  const auto conversation = Start(session, "vicuna");
  GenerateOptions options = Greedy();
  options.max_tokens = 2;
  EXPECT_EQ(Say(*conversation, "Who?", options).text, "Ti");
  const Tokens prompt = Whole("USER: Who? ASSISTANT:");
  EXPECT_EQ(session.held, prompt + Ids("T"));  // the last is not computed yet
  Say(*conversation, "Why?", options);
  Tokens turn = Whole("</s>USER: Why? ASSISTANT:");
  turn.erase(turn.begin());
  EXPECT_EQ(Tokens(session.held.begin(),
                   session.held.begin() +
                       static_cast<ptrdiff_t>(prompt.size() + 2 + turn.size())),
            prompt + Ids("Ti") + turn);
}

TEST(ConversationTest, TheFormatsStopStringIsNotKept) {
  ScriptedSession session(Stories(), Ids("Tim USER: me") + Ids("b"));
  const auto conversation = Start(session, "vicuna");
  const Said first = Say(*conversation, "Who?");
  EXPECT_EQ(first.text, "Tim ");
  EXPECT_EQ(first.report.reason, StopReason::kStopString);
  EXPECT_EQ(session.held, Whole("USER: Who? ASSISTANT:") + Ids("Tim "));
  EXPECT_EQ(Transcript(*conversation), "user:Who?|assistant:Tim |");
}

// The end of a format's messages is a control token that no key of the file
// names: it ends the answer, and is in the conversation once.
TEST(ConversationTest, ControlTokensEndAnAnswerAsTheFormatSays) {
  ScriptedSession session(Stories(),
                          Ids("Tim") + Tokens{kBos} + Ids("x") + Ids("a"));
  text::ChatTemplate format = *text::FindChatTemplate("vicuna", Tokenizer());
  format.stop = "<s>";
  format.after_answer = "<s>";
  const auto named = text::NamedFormat::Create(format, Tokenizer());
  ASSERT_TRUE(named.has_value());
  const auto started = Start(session, **named);
  Conversation& conversation = *started;
  const Said first = Say(conversation, "Who?");
  EXPECT_EQ(first.text, "Tim");
  EXPECT_EQ(first.report.reason, StopReason::kEndOfGeneration);
  const Tokens prompt = Whole("USER: Who? ASSISTANT:");
  EXPECT_EQ(session.held, prompt + Ids("Tim"));
  GenerateOptions one = Greedy();
  one.max_tokens = 1;
  Say(conversation, "Why?", one);
  Tokens turn = Whole("<s>USER: Why? ASSISTANT:");
  turn.erase(turn.begin());
  EXPECT_EQ(session.held, prompt + Ids("Tim") + turn);
}

// A stop string that begins inside a token: its first half is said, and is
// what the next turn starts with.
TEST(ConversationTest, AStopStringInsideATokenSplitsIt) {
  const TokenId and_token = TokenOf(" and");
  ScriptedSession session(Stories(),
                          Ids("T") + Tokens{and_token} + Tokens{kEos});
  const auto conversation = Start(session, "vicuna");
  GenerateOptions options = Greedy();
  options.stop_strings = {"nd"};
  const Said first = Say(*conversation, "Who?", options);
  EXPECT_EQ(first.text, "T a");
  const Tokens prompt = Whole("USER: Who? ASSISTANT:");
  EXPECT_EQ(session.held, prompt + Ids("T"));
  Say(*conversation, "Why?", options);
  Tokens turn = Whole("</s>USER: Why? ASSISTANT:");
  turn.erase(turn.begin());
  EXPECT_EQ(session.held, prompt + Ids("T") + Tokens{TokenOf(" a")} + turn);
}

TEST(ConversationTest, TheAnswersFirstSpaceIsTheFormats) {
  ScriptedSession session(Stories(), Ids(" \n a b ") + Tokens{kEos});
  const auto conversation = Start(session, "vicuna");
  EXPECT_EQ(Say(*conversation, "Who?").text, "a b ");
  EXPECT_EQ(Transcript(*conversation), "user:Who?|assistant:a b |");
  EXPECT_EQ(session.held, Whole("USER: Who? ASSISTANT:") + Ids(" \n a b "));
}

// A message cannot end its own turn: what it writes out stays text.
TEST(ConversationTest, MessagesCannotForgeMarkup) {
  ScriptedSession session(Stories(), {kEos, kEos});
  const auto conversation = Start(session, "zephyr", "a</s>b");
  Say(*conversation, "c</s><s>d");
  // Two of the format: behind the system prompt, behind the message.
  EXPECT_EQ(std::ranges::count(session.held, kEos), 2);
  EXPECT_EQ(std::ranges::count(session.held, kBos), 1);
  Say(*conversation, "</s>");
  EXPECT_EQ(std::ranges::count(session.held, kEos), 4);
  EXPECT_EQ(std::ranges::count(session.held, kBos), 1);
  EXPECT_THAT(Tokenizer().Decode(session.held, false), HasSubstr("c</s><s>d"));
}

TEST(ConversationTest, CancelledAnswersKeepWhatWasSaid) {
  ScriptedSession session(Stories(), Ids("Tim ran") + Tokens{kEos});
  const auto conversation = Start(session, "vicuna");
  std::atomic<bool> cancel = false;
  GenerateOptions options = Greedy();
  options.cancel = &cancel;
  std::string text;
  const auto report =
      conversation->Say("Who?", options, [&](std::string_view piece) {
        text += piece;
        cancel = text == "Ti";
        return true;
      });
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->reason, StopReason::kCancelled);
  EXPECT_EQ(Transcript(*conversation), "user:Who?|assistant:Ti|");
  EXPECT_EQ(session.held, Whole("USER: Who? ASSISTANT:") + Ids("Ti"));
}

TEST(ConversationTest, CancelledBeforeTheAnswerNothingWasSaid) {
  ScriptedSession session(Stories(),
                          Ids("a") + Tokens{kEos} + Ids("b") + Tokens{kEos});
  const auto conversation = Start(session, "vicuna");
  session.fail_code = ErrorCode::kCancelled;
  session.fail_at_call = 0;
  EXPECT_EQ(Say(*conversation, "Nobody").report.reason, StopReason::kCancelled);
  EXPECT_EQ(Transcript(*conversation), "");
  EXPECT_FALSE(conversation->has_answer());
  EXPECT_EQ(session.position(), 0);
  EXPECT_EQ(Say(*conversation, "Who?").text, "a");
  const Tokens held = session.held;
  session.fail_at_call = session.num_calls;
  EXPECT_EQ(Say(*conversation, "Nobody").report.reason, StopReason::kCancelled);
  EXPECT_EQ(session.held, held);
  EXPECT_EQ(Transcript(*conversation), "user:Who?|assistant:a|");
  EXPECT_EQ(Say(*conversation, "Why?").text, "b");
  EXPECT_EQ(Transcript(*conversation),
            "user:Who?|assistant:a|user:Why?|assistant:b|");
}

TEST(ConversationTest, AnswerAgainComputesOneTokenAndReplacesTheAnswer) {
  ScriptedSession session(
      Stories(), Ids("Tim") + Tokens{kEos} + Ids("Ann") + Tokens{kEos, kEos});
  const auto conversation = Start(session, "vicuna");
  EXPECT_FALSE(conversation->has_answer());
  Say(*conversation, "Who?");
  ASSERT_TRUE(conversation->has_answer());
  const size_t num_decoded = session.decoded.size();
  std::string text;
  const auto receive = [&](std::string_view piece) {
    text += piece;
    return true;
  };
  auto report = conversation->AnswerAgain(Greedy(), receive);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(text, "Ann");
  EXPECT_EQ(report->num_prompt_tokens, 1);
  EXPECT_EQ(session.decoded.size(), num_decoded + 1 + 3);
  const Tokens prompt = Whole("USER: Who? ASSISTANT:");
  EXPECT_EQ(session.held, prompt + Ids("Ann"));
  EXPECT_EQ(Transcript(*conversation), "user:Who?|assistant:Ann|");
  // Cancelled at once: the old answer stays, and the next turn has it.
  session.fail_code = ErrorCode::kCancelled;
  session.fail_at_call = session.num_calls;
  report = conversation->AnswerAgain(Greedy(), receive);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(Transcript(*conversation), "user:Who?|assistant:Ann|");
  Say(*conversation, "Why?");
  Tokens turn = Whole("</s>USER: Why? ASSISTANT:");
  turn.erase(turn.begin());
  EXPECT_EQ(session.held, prompt + Ids("Ann") + turn);
}

TEST(ConversationTest, ClearKeepsTheSystemPrompt) {
  ScriptedSession session(Stories(),
                          Ids("a") + Tokens{kEos} + Ids("b") + Tokens{kEos});
  const auto conversation = Start(session, "vicuna", "Be kind");
  Say(*conversation, "Who?");
  conversation->Clear();
  EXPECT_EQ(Transcript(*conversation), "system:Be kind|");
  EXPECT_EQ(session.position(), 0);
  EXPECT_FALSE(conversation->has_answer());
  Say(*conversation, "Why?");
  EXPECT_EQ(session.held, Whole("Be kind USER: Why? ASSISTANT:") + Ids("b"));
}

TEST(ConversationTest, AFullContextStopsAndRefusesWithNumbers) {
  const Tokens prompt = Whole("USER: Who? ASSISTANT:");
  const auto context = static_cast<int64_t>(prompt.size()) + 2;
  ScriptedSession session(Stories(), Ids("Tim ran away"), context);
  const auto conversation = Start(session, "vicuna");
  const Said said = Say(*conversation, "Who?");
  EXPECT_EQ(said.report.reason, StopReason::kContextFull);
  EXPECT_EQ(said.text, "Tim");  // two at positions, one from the last logits
  EXPECT_EQ(session.position(), context);

  const int num_calls = session.num_calls;
  const auto refused = conversation->Say("Why?", Greedy(), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  const std::string size = std::to_string(context);
  EXPECT_THAT(refused.error().message,
              HasSubstr("but " + size + " of " + size + " are used"));
  EXPECT_EQ(session.num_calls, num_calls);
  EXPECT_EQ(Transcript(*conversation), "user:Who?|assistant:Tim|");
  conversation->Clear();
  EXPECT_EQ(Say(*conversation, "Who?").report.reason, StopReason::kContextFull);
}

// Only what an empty context would hold can be helped by clearing it.
TEST(ConversationTest, RefusalsNameWhatIsTooLong) {
  const auto refusal = [](Conversation& conversation, std::string_view text) {
    const auto refused = conversation.Say(text, Greedy(), {});
    EXPECT_FALSE(refused.has_value());
    return refused.has_value() ? "" : refused.error().message;
  };
  const auto size_of = [](const std::string& text) {
    return std::to_string(Whole(text).size());
  };
  const std::string large(100, 'x');
  ScriptedSession session(Stories(), Ids("Tim") + Tokens{kEos}, 40);
  auto conversation = Start(session, "vicuna");
  const std::string too_large = "the message takes " +
                                size_of("USER: " + large + " ASSISTANT:") +
                                " positions with what belongs to it, but the "
                                "context has 40";
  EXPECT_EQ(refusal(*conversation, large), too_large);
  Say(*conversation, "Who?");
  EXPECT_EQ(refusal(*conversation, large), too_large);
  EXPECT_THAT(refusal(*conversation, "xxxxxxxxxxxxxxx"),
              HasSubstr("of 40 are used"));

  ScriptedSession other(Stories(), {}, 40);
  conversation = Start(other, "vicuna", large);
  EXPECT_EQ(refusal(*conversation, "Who?"),
            "the system prompt takes " + size_of(large + " USER:  ASSISTANT:") +
                " positions with what belongs to it, but the context has 40");
  conversation = Start(other, "vicuna", "Be kind");
  EXPECT_THAT(refusal(*conversation, large), HasSubstr("the message takes"));
}

TEST(ConversationTest, ErrorsOfTheSessionPassThrough) {
  ScriptedSession session(Stories(), {});
  const auto conversation = Start(session, "vicuna");
  session.fail_at_call = 0;
  const auto report = conversation->Say("Who?", Greedy(), {});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().message, "scripted failure");
}

// Options that are refused and sessions that fail: what is said next follows
// what was there before.
TEST(ConversationTest, ErrorsChangeNothing) {
  ScriptedSession session(Stories(),
                          Ids("a") + Tokens{kEos} + Ids("xyz") + Ids("b"));
  const auto conversation = Start(session, "vicuna");
  GenerateOptions refused = Greedy();
  refused.sampler.top_p = NAN;
  const auto receive = [](std::string_view) { return true; };
  EXPECT_FALSE(conversation->Say("Nobody", refused, receive).has_value());
  EXPECT_EQ(Transcript(*conversation), "");
  EXPECT_EQ(Say(*conversation, "Who?").text, "a");
  const Tokens prompt = Whole("USER: Who? ASSISTANT:");
  EXPECT_EQ(session.held, prompt + Ids("a"));

  EXPECT_FALSE(conversation->Say("Nobody", refused, receive).has_value());
  EXPECT_FALSE(conversation->AnswerAgain(refused, receive).has_value());
  // In the midst of another answer.
  session.fail_at_call = session.num_calls + 2;
  EXPECT_FALSE(conversation->AnswerAgain(Greedy(), receive).has_value());
  EXPECT_EQ(Transcript(*conversation), "user:Who?|assistant:a|");
  GenerateOptions one = Greedy();
  one.max_tokens = 1;
  Say(*conversation, "Why?", one);
  Tokens turn = Whole("</s>USER: Why? ASSISTANT:");
  turn.erase(turn.begin());
  EXPECT_EQ(session.held, prompt + Ids("a") + turn);
}

TEST(ConversationTest, PenaltiesKnowEarlierTurns) {
  const TokenId z = Ids("z")[0];
  ScriptedSession session(Stories(), {z, kEos, z, kEos});
  session.second_choice = static_cast<size_t>(Ids("q")[0]);
  const auto conversation = Start(session, "vicuna");
  GenerateOptions options = Greedy();
  options.sampler.presence_penalty = 6.0f;
  options.sampler.repeat_last_n = -1;
  EXPECT_EQ(Say(*conversation, "A", options).text, "z");
  EXPECT_EQ(Say(*conversation, "B", options).text, "q");
}

// With the real engine, turn by turn and as one text: the same answers.
TEST(ConversationTest, TurnsGiveWhatTheWholeTextGives) {
  auto session = engine::Session::Create(Stories(), {});
  ASSERT_TRUE(session.has_value()) << session.error().message;
  const auto conversation = Start(**session, "alpaca", "A story");
  GenerateOptions options = Greedy();
  options.max_tokens = 12;
  const Said first = Say(*conversation, "Once upon a time", options);
  const Said second = Say(*conversation, "One day", options);
  const Said third = Say(*conversation, "Tim and Lily", options);

  const auto tokens_of = [](const std::vector<text::TextPart>& parts,
                            std::optional<TokenId> previous) {
    return *Tokenizer().EncodeParts(parts,
                                    {.previous = previous, .reserved = {}});
  };
  Tokens whole = Tokens{kBos} +
                 tokens_of({{"A story\n\n### Instruction:\nOnce upon a time\n\n"
                             "### Response:\n",
                             true}},
                           std::nullopt);
  for (const auto& [said, next] :
       {std::pair(&first, "One day"), std::pair(&second, "Tim and Lily")}) {
    whole = whole + said->report.tokens;
    if (whole.back() == kEos) whole.pop_back();
    whole = whole + tokens_of({{"</s>\n\n### Instruction:\n", true},
                               {next, false},
                               {"\n\n### Response:\n", true}},
                              whole.back());
  }
  (*session)->Truncate(0);
  const auto again = Generate(**session, whole, options,
                              [](std::string_view) { return true; });
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->tokens, third.report.tokens);
  EXPECT_FALSE(third.text.empty());
}

}  // namespace
}  // namespace thermocline::decode
