#include "decode/generate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "decode/test_session.h"
#include "model/test_log.h"
#include "model/test_model.h"

namespace thermocline::decode {
namespace {

using text::TokenId;

TokenId Eos() { return Stories()->tokenizer()->vocab().eos.value(); }

struct Outcome {
  std::string text;
  std::vector<std::string> pieces;
  Result<GenerateReport> report = GenerateReport();
};

Outcome RunOn(engine::Session& session, const GenerateOptions& options,
              const Tokens& prompt = {1, 40}) {
  Outcome outcome;
  outcome.report =
      Generate(session, prompt, options, [&](std::string_view text) {
        outcome.pieces.emplace_back(text);
        outcome.text += text;
        return true;
      });
  return outcome;
}

Tokens Joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Generate, ChoosesDecodesAndShowsUntilEndOfGeneration) {
  ScriptedSession session(Stories(), Joined(Ids("Tim ran"), {Eos()}));
  GenerateOptions options = Greedy();
  options.sampler.seed = 5;
  const Outcome outcome = RunOn(session, options);
  ASSERT_TRUE(outcome.report.has_value());
  EXPECT_EQ(outcome.text, "Tim ran");
  EXPECT_EQ(outcome.pieces.size(), 7u);  // as it becomes known
  EXPECT_EQ(outcome.report->reason, StopReason::kEndOfGeneration);
  EXPECT_EQ(outcome.report->num_prompt_tokens, 2);
  EXPECT_EQ(outcome.report->tokens.size(), 8u);
  EXPECT_EQ(outcome.report->num_text_tokens, 7u);
  // The first from the prefill's logits, the last not decoded.
  EXPECT_EQ(outcome.report->num_decodes, 7);
  EXPECT_EQ(outcome.report->seed, 5u);
  EXPECT_EQ(session.decoded, Joined({1, 40}, Ids("Tim ran")));
}

TEST(Generate, TheFirstPieceKeepsItsSpace) {
  ScriptedSession session(Stories(), Joined(Ids(" a"), {Eos()}));
  EXPECT_EQ(RunOn(session, Greedy()).text, " a");
}

// Heads are padded to a round number of rows; what those choose has no text.
TEST(Generate, RowsOfTheHeadBeyondTheVocabulary) {
  const std::string path = ::testing::TempDir() + "/padded-head-" +
                           std::to_string(::getpid()) + ".gguf";
  std::ofstream(path, std::ios::binary)
      << model::TestModel()
             .SetTensor("token_embd.weight", DType::kF16, {32, 8})
             .SetTensor("output.weight", DType::kF16, {32, 8})
             .Bytes();
  model::TestLog log;  // tells of them
  const auto padded = model::Model::Open(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(padded.has_value()) << padded.error().message;
  ScriptedSession session(*padded, {3, 6, 7, 4, 2});
  const Outcome outcome = RunOn(session, Greedy(), {1});
  ASSERT_TRUE(outcome.report.has_value()) << outcome.report.error().message;
  EXPECT_EQ(outcome.text, "ab");
  EXPECT_EQ(outcome.report->tokens, (Tokens{3, 6, 7, 4, 2}));
  EXPECT_EQ(outcome.report->reason, StopReason::kEndOfGeneration);
}

TEST(Generate, MaxTokens) {
  ScriptedSession session(Stories(), Ids("Tim ran"));
  GenerateOptions options = Greedy();
  options.max_tokens = 3;
  const Outcome outcome = RunOn(session, options);
  ASSERT_TRUE(outcome.report.has_value());
  EXPECT_EQ(outcome.text, "Tim");
  EXPECT_EQ(outcome.report->reason, StopReason::kMaxTokens);
  EXPECT_EQ(outcome.report->tokens.size(), 3u);
  // The third is not decoded: nothing would be chosen from its logits.
  EXPECT_EQ(session.num_calls, 3);
}

TEST(Generate, NoTokensIsPrefillOnly) {
  ScriptedSession session(Stories(), Ids("Tim ran"));
  GenerateOptions options = Greedy();
  options.max_tokens = 0;
  const Outcome outcome = RunOn(session, options);
  ASSERT_TRUE(outcome.report.has_value());
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(outcome.report->reason, StopReason::kMaxTokens);
  EXPECT_EQ(session.decoded, (Tokens{1, 40}));
}

TEST(Generate, ContextFull) {
  ScriptedSession session(Stories(), Ids("Tim ran"), 4);
  const Outcome outcome = RunOn(session, Greedy());
  ASSERT_TRUE(outcome.report.has_value());
  // Two in the context, and one more from the last logits.
  EXPECT_EQ(outcome.text, "Tim");
  EXPECT_EQ(outcome.report->reason, StopReason::kContextFull);
  EXPECT_EQ(session.position(), 4);
}

TEST(Generate, StopStringsAcrossTokens) {
  ScriptedSession session(Stories(), Ids("one two three"));
  GenerateOptions options = Greedy();
  options.stop_strings = {"xyz", "two t"};
  const Outcome outcome = RunOn(session, options);
  ASSERT_TRUE(outcome.report.has_value());
  EXPECT_EQ(outcome.text, "one ");
  EXPECT_EQ(outcome.report->reason, StopReason::kStopString);
  EXPECT_EQ(outcome.report->tokens.size(), 9u);
  EXPECT_EQ(outcome.report->num_text_tokens, 4u);
}

TEST(Generate, WhatWasHeldBackComesAtTheEnd) {
  ScriptedSession session(Stories(), Joined(Ids("one tw"), {Eos()}));
  GenerateOptions options = Greedy();
  options.stop_strings = {"two"};
  const Outcome outcome = RunOn(session, options);
  EXPECT_EQ(outcome.text, "one tw");
  EXPECT_EQ(outcome.pieces.back(), "tw");
}

TEST(Generate, IgnoreEosNeverChoosesIt) {
  ScriptedSession session(Stories(), Joined({Eos()}, Ids("ab")));
  session.second_choice = static_cast<size_t>(Ids("z")[0]);
  GenerateOptions options = Greedy();
  options.ignore_eos = true;
  options.max_tokens = 3;
  const Outcome outcome = RunOn(session, options);
  ASSERT_TRUE(outcome.report.has_value());
  EXPECT_EQ(outcome.text, "zab");
  EXPECT_EQ(outcome.report->reason, StopReason::kMaxTokens);
}

TEST(Generate, ControlTokensAreNotShown) {
  const TokenId bos = Stories()->tokenizer()->vocab().bos.value();
  ScriptedSession session(Stories(), Joined(Joined(Ids("a"), {bos}), Ids("b")));
  GenerateOptions options = Greedy();
  options.max_tokens = 3;
  EXPECT_EQ(RunOn(session, options).text, "ab");
}

TEST(Generate, ControlTokensStopByTheirText) {
  const TokenId bos = Stories()->tokenizer()->vocab().bos.value();
  ScriptedSession session(Stories(), Joined(Joined(Ids("a"), {bos}), Ids("b")));
  GenerateOptions options = Greedy();
  options.max_tokens = 3;
  options.stop_strings = {"<s>"};
  const Outcome outcome = RunOn(session, options);
  ASSERT_TRUE(outcome.report.has_value());
  EXPECT_EQ(outcome.text, "a");
  EXPECT_EQ(outcome.report->reason, StopReason::kStopString);
  EXPECT_EQ(outcome.report->tokens, Joined(Ids("a"), {bos}));
  EXPECT_EQ(outcome.report->num_text_tokens, 1u);
}

TEST(Generate, OptionsNameTokensThatEndAndThatAreShown) {
  const TokenId bos = Stories()->tokenizer()->vocab().bos.value();
  const TokenId end = Ids("q")[0];
  ScriptedSession session(Stories(), Ids("a") + Tokens{bos} + Ids("bqc"));
  GenerateOptions options = Greedy();
  options.shown_tokens = std::span(&bos, 1);
  options.end_tokens = std::span(&end, 1);
  const Outcome outcome = RunOn(session, options);
  ASSERT_TRUE(outcome.report.has_value());
  EXPECT_EQ(outcome.text, "a<s>b");
  EXPECT_EQ(outcome.report->reason, StopReason::kEndOfGeneration);
  EXPECT_EQ(outcome.report->num_text_tokens, 3u);
}

TEST(Generate, IgnoreEosNeverChoosesAnEndOfTheOptions) {
  const TokenId end = Ids("q")[0];
  ScriptedSession session(Stories(), Ids("qab"));
  session.second_choice = static_cast<size_t>(Ids("z")[0]);
  GenerateOptions options = Greedy();
  options.end_tokens = std::span(&end, 1);
  options.ignore_eos = true;
  options.max_tokens = 3;
  EXPECT_EQ(RunOn(session, options).text, "zab");
}

TEST(Generate, BytesOfACharacterAreShownTogether) {
  // SPM byte tokens: <0xC3> <0xA9> is é; id = byte + 3.
  ScriptedSession session(Stories(), Joined({0xC3 + 3, 0xA9 + 3}, Ids("x")));
  GenerateOptions options = Greedy();
  options.max_tokens = 3;
  const Outcome outcome = RunOn(session, options);
  EXPECT_EQ(outcome.text, "\xc3\xa9x");
  ASSERT_EQ(outcome.pieces.size(), 2u);
  EXPECT_EQ(outcome.pieces[0], "\xc3\xa9");
}

TEST(Generate, TheReceiverCanStop) {
  ScriptedSession session(Stories(), Ids("Tim ran"));
  int num_pieces = 0;
  const auto report =
      Generate(session, Tokens{1}, Greedy(),
               [&](std::string_view) { return ++num_pieces < 2; });
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->reason, StopReason::kReceiver);
  EXPECT_EQ(num_pieces, 2);  // and never called again
}

TEST(Generate, CancelBetweenTokens) {
  ScriptedSession session(Stories(), Ids("Tim ran"));
  std::atomic<bool> cancel = false;
  GenerateOptions options = Greedy();
  options.cancel = &cancel;
  std::string text;
  const auto report =
      Generate(session, Tokens{1}, options, [&](std::string_view piece) {
        text += piece;
        cancel = text == "Ti";
        return true;
      });
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->reason, StopReason::kCancelled);
  EXPECT_EQ(text, "Ti");
}

TEST(Generate, CancelWithinTheSession) {
  ScriptedSession session(Stories(), Ids("Tim ran"));
  session.fail_code = ErrorCode::kCancelled;
  session.fail_at_call = 0;  // in the prompt
  Outcome outcome = RunOn(session, Greedy());
  ASSERT_TRUE(outcome.report.has_value());
  EXPECT_EQ(outcome.report->reason, StopReason::kCancelled);
  EXPECT_EQ(outcome.report->tokens.size(), 0u);
  EXPECT_EQ(outcome.report->num_prompt_tokens, 0);  // or it would have a speed
  session.fail_at_call = 3;
  outcome = RunOn(session, Greedy());
  ASSERT_TRUE(outcome.report.has_value());
  EXPECT_EQ(outcome.report->num_prompt_tokens, 2);
  EXPECT_EQ(outcome.report->reason, StopReason::kCancelled);
  EXPECT_EQ(outcome.text, "Ti");
}

TEST(Generate, ErrorsOfTheSessionPassThrough) {
  ScriptedSession session(Stories(), Ids("Tim ran"));
  session.fail_at_call = 2;
  const Outcome outcome = RunOn(session, Greedy());
  ASSERT_FALSE(outcome.report.has_value());
  EXPECT_EQ(outcome.report.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(outcome.report.error().message, "scripted failure");
}

TEST(Generate, PenaltiesKnowThePrompt) {
  const TokenId a = Ids("a")[0];
  ScriptedSession session(Stories(), {a});
  session.second_choice = static_cast<size_t>(Ids("b")[0]);
  GenerateOptions options = Greedy();
  options.max_tokens = 1;
  options.sampler.presence_penalty = 6.0f;
  EXPECT_EQ(RunOn(session, options, {1, a}).text, "b");
}

TEST(Generate, RefusesBeforeAnyWork) {
  ScriptedSession session(Stories(), Ids("Tim ran"), 4);
  const auto code_of = [&](const Tokens& prompt,
                           const GenerateOptions& options) {
    const Outcome outcome = RunOn(session, options, prompt);
    EXPECT_FALSE(outcome.report.has_value());
    return outcome.report.has_value() ? ErrorCode::kIo
                                      : outcome.report.error().code;
  };
  EXPECT_EQ(code_of({}, Greedy()), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(Tokens(5, 1), Greedy()), ErrorCode::kResourceExhausted);
  GenerateOptions options = Greedy();
  options.max_tokens = -2;
  EXPECT_EQ(code_of({1}, options), ErrorCode::kInvalidArgument);
  options = Greedy();
  options.sampler.repeat_penalty = 0.0f;
  EXPECT_EQ(code_of({1}, options), ErrorCode::kInvalidArgument);
  EXPECT_EQ(session.num_calls, 0);
  gguf::ParsedCopy no_vocab(
      model::TestModel().Remove("tokenizer.ggml.model").Bytes());
  ScriptedSession textless(
      model::Model::FromFile(std::move(*no_vocab.file), {}).value(), {});
  const Outcome outcome = RunOn(textless, Greedy());
  ASSERT_FALSE(outcome.report.has_value());
  EXPECT_EQ(outcome.report.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(textless.num_calls, 0);
}

// A real session: the same prompt twice behind each other, and the same text.
TEST(Generate, WithTheRealEngine) {
  auto session = engine::Session::Create(Stories(), {});
  ASSERT_TRUE(session.has_value()) << session.error().message;
  const auto prompt = Stories()->tokenizer()->Encode("Once upon a time", {});
  ASSERT_TRUE(prompt.has_value());
  GenerateOptions options = Greedy();
  options.max_tokens = 12;
  const Outcome first = RunOn(**session, options, *prompt);
  (*session)->Truncate(0);
  const Outcome second = RunOn(**session, options, *prompt);
  EXPECT_TRUE(first.text.starts_with(", there was")) << first.text;
  EXPECT_EQ(first.text, second.text);
}

}  // namespace
}  // namespace thermocline::decode
