#include "text/named_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "text/test_chat.h"

namespace thermocline::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<const NamedFormat> MakeNamed(std::string_view name,
                                             const Tokenizer& tokenizer) {
  const ChatTemplate* row = FindChatTemplate(name, tokenizer);
  EXPECT_NE(row, nullptr) << name;
  auto format = NamedFormat::Create(*row, tokenizer);
  EXPECT_TRUE(format.has_value()) << format.error().message;
  return *std::move(format);
}

std::vector<TextPart> Rendered(const ChatFormat& format,
                               const ChatMessages& messages) {
  auto parts = format.Render({.messages = &messages});
  EXPECT_TRUE(parts.has_value()) << parts.error().message;
  return parts.value_or(std::vector<TextPart>());
}

// A system prompt, two messages answered, a third one: what the model reads.
std::string RenderConversation(std::string_view name,
                               const Tokenizer& tokenizer) {
  return Join(Rendered(*MakeNamed(name, tokenizer),
                       MakeMessages({{"system", "Be kind"},
                                     {"user", "Hello"},
                                     {"assistant", "Hi there"},
                                     {"user", "Who are you?"},
                                     {"assistant", "I am Tim"},
                                     {"user", "Bye"}})));
}

TEST(NamedFormatTest, ThreeTurnsInEveryFormat) {
  const auto spm = MakeChatTokenizer(SmallSpmVocab());
  EXPECT_EQ(RenderConversation("chatml", *spm),
            "<|im_start|>system\nBe kind<|im_end|>\n"
            "<|im_start|>user\nHello<|im_end|>\n"
            "<|im_start|>assistant\nHi there<|im_end|>\n"
            "<|im_start|>user\nWho are you?<|im_end|>\n"
            "<|im_start|>assistant\nI am Tim<|im_end|>\n"
            "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(RenderConversation("llama2", *spm),
            "[INST] <<SYS>>\nBe kind\n<</SYS>>\n\nHello [/INST]Hi there </s>"
            "<s>[INST] Who are you? [/INST]I am Tim </s>"
            "<s>[INST] Bye [/INST]");
  EXPECT_EQ(RenderConversation("llama3", *spm),
            "<|start_header_id|>system<|end_header_id|>\n\nBe kind<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
            "Hi there<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nWho are you?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
            "I am Tim<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(RenderConversation("phi3", *spm),
            "<|system|>\nBe kind<|end|>\n<|user|>\nHello<|end|>\n"
            "<|assistant|>\nHi there<|end|>\n<|user|>\nWho are you?<|end|>\n"
            "<|assistant|>\nI am Tim<|end|>\n<|user|>\nBye<|end|>\n"
            "<|assistant|>\n");
  EXPECT_EQ(RenderConversation("gemma", *spm),
            "<start_of_turn>user\nBe kind\n\nHello<end_of_turn>\n"
            "<start_of_turn>model\nHi there<end_of_turn>\n"
            "<start_of_turn>user\nWho are you?<end_of_turn>\n"
            "<start_of_turn>model\nI am Tim<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(RenderConversation("zephyr", *spm),
            "<|system|>\nBe kind</s>\n<|user|>\nHello</s>\n<|assistant|>\n"
            "Hi there</s>\n<|user|>\nWho are you?</s>\n<|assistant|>\n"
            "I am Tim</s>\n<|user|>\nBye</s>\n<|assistant|>\n");
  EXPECT_EQ(RenderConversation("tulu", *spm),
            "<|system|>\nBe kind\n<|user|>\nHello\n<|assistant|>\n"
            "Hi there</s>\n<|user|>\nWho are you?\n<|assistant|>\n"
            "I am Tim</s>\n<|user|>\nBye\n<|assistant|>\n");
  EXPECT_EQ(RenderConversation("openchat", *spm),
            "GPT4 Correct System: Be kind<|end_of_turn|>"
            "GPT4 Correct User: Hello<|end_of_turn|>"
            "GPT4 Correct Assistant:Hi there<|end_of_turn|>"
            "GPT4 Correct User: Who are you?<|end_of_turn|>"
            "GPT4 Correct Assistant:I am Tim<|end_of_turn|>"
            "GPT4 Correct User: Bye<|end_of_turn|>GPT4 Correct Assistant:");
  EXPECT_EQ(RenderConversation("vicuna", *spm),
            "Be kind USER: Hello ASSISTANT:Hi there</s>"
            "USER: Who are you? ASSISTANT:I am Tim</s>USER: Bye ASSISTANT:");
  EXPECT_EQ(RenderConversation("alpaca", *spm),
            "Be kind\n\n### Instruction:\nHello\n\n### Response:\n"
            "Hi there</s>\n\n### Instruction:\nWho are you?\n\n### Response:\n"
            "I am Tim</s>\n\n### Instruction:\nBye\n\n### Response:\n");
}

TEST(NamedFormatTest, MistralByItsVocabulary) {
  EXPECT_EQ(RenderConversation("mistral", *MakeChatTokenizer(SmallSpmVocab())),
            "[INST] Be kind\n\nHello [/INST]Hi there</s>"
            "[INST] Who are you? [/INST]I am Tim</s>[INST] Bye [/INST]");
  const auto v3 = MakeChatTokenizer(SmallSpmVocab(), {"[INST]", "[/INST]"});
  EXPECT_EQ(RenderConversation("mistral", *v3),
            "[INST]Be kind\n\nHello[/INST]Hi there</s>"
            "[INST]Who are you?[/INST]I am Tim</s>[INST]Bye[/INST]");
  const auto v7 = MakeChatTokenizer(
      SmallSpmVocab(),
      {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"});
  EXPECT_EQ(RenderConversation("mistral", *v7),
            "[SYSTEM_PROMPT]Be kind[/SYSTEM_PROMPT]"
            "[INST]Hello[/INST]Hi there</s>"
            "[INST]Who are you?[/INST]I am Tim</s>[INST]Bye[/INST]");
}

TEST(NamedFormatTest, DeepSeekByItsVocabulary) {
  EXPECT_EQ(RenderConversation("deepseek", *MakeChatTokenizer(SmallSpmVocab())),
            "Be kind\n\nUser: Hello\n\nAssistant:Hi there</s>"
            "User: Who are you?\n\nAssistant:I am Tim</s>"
            "User: Bye\n\nAssistant:");
  const auto coder =
      MakeChatTokenizer(SmallBpeVocab("deepseek-coder"), {"<|EOT|>"});
  EXPECT_EQ(RenderConversation("deepseek", *coder),
            "Be kind\n### Instruction:\nHello\n### Response:\nHi there\n"
            "<|EOT|>\n### Instruction:\nWho are you?\n### Response:\nI am Tim\n"
            "<|EOT|>\n### Instruction:\nBye\n### Response:\n");
  const auto v3 = MakeChatTokenizer(
      SmallSpmVocab(), {"<｜User｜>", "<｜Assistant｜>", "<|EOT|>"});
  EXPECT_EQ(RenderConversation("deepseek", *v3),
            "Be kind<｜User｜>Hello<｜Assistant｜>Hi there</s>"
            "<｜User｜>Who are you?<｜Assistant｜>I am Tim</s>"
            "<｜User｜>Bye<｜Assistant｜>");
}

TEST(NamedFormatTest, WithoutSystemPromptNothingStandsForIt) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  for (const std::string_view name : ChatTemplateNames()) {
    const ChatTemplate& row = *FindChatTemplate(name, *tokenizer);
    const auto parts = Rendered(*MakeNamed(name, *tokenizer),
                                MakeMessages({{"user", "Hello"}}));
    ASSERT_EQ(parts.size(), 3u) << name;
    EXPECT_EQ(parts[0], (TextPart{std::string(row.before_user), true}));
    EXPECT_EQ(parts[1], (TextPart{"Hello", false}));
    EXPECT_TRUE(parts[2].is_markup);
  }
}

TEST(NamedFormatTest, WhiteSpaceGoesWhereTheModelsTemplateTrims) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  for (const std::string_view name : ChatTemplateNames()) {
    const bool trims = name == "llama2" || name == "llama3" || name == "gemma";
    const auto parts = Rendered(*MakeNamed(name, *tokenizer),
                                MakeMessages({{"user", " a b\n"}}));
    EXPECT_EQ(parts[1], (TextPart{trims ? "a b" : " a b\n", false})) << name;
  }
}

TEST(NamedFormatTest, TokensThatAVocabularyLacksAreLeftOut) {
  Vocab vocab = SmallSpmVocab();
  vocab.bos.reset();
  vocab.eos.reset();
  const auto tokenizer = MakeChatTokenizer(vocab);
  EXPECT_EQ(
      Join(Rendered(
          *MakeNamed("llama2", *tokenizer),
          MakeMessages({{"user", "a"}, {"assistant", "b"}, {"user", "Bye"}}))),
      "[INST] a [/INST]b [INST] Bye [/INST]");
}

// What a message holds is never taken for a piece of the format.
TEST(NamedFormatTest, BracesInMessagesStay) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  EXPECT_THAT(
      Rendered(*MakeNamed("zephyr", *tokenizer),
               MakeMessages(
                   {{"system", "{eos}{bos}"}, {"user", "{eos}</s>{system}"}})),
      ElementsAre(TextPart{"<|system|>\n", true}, TextPart{"{eos}{bos}", false},
                  TextPart{"</s>\n<|user|>\n", true},
                  TextPart{"{eos}</s>{system}", false},
                  TextPart{"</s>\n<|assistant|>\n", true}));
}

TEST(NamedFormatTest, ContentInParts) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  ChatMessages messages = MakeMessages({{"user", ""}});
  messages[0]["content"] = {{{"type", "text"}, {"text", "a "}},
                            {{"type", "text"}, {"text", "b"}}};
  EXPECT_EQ(Join(Rendered(*MakeNamed("vicuna", *tokenizer), messages)),
            "USER: a b ASSISTANT:");
}

TEST(NamedFormatTest, RefusesWhatItHasNoPlaceFor) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  const auto format = MakeNamed("vicuna", *tokenizer);
  const auto refusal = [&](const ChatMessages& messages,
                           bool add_generation_prompt = true) {
    const auto parts =
        format->Render({.messages = &messages,
                        .add_generation_prompt = add_generation_prompt});
    EXPECT_FALSE(parts.has_value()) << messages;
    if (parts.has_value()) return std::string();
    EXPECT_EQ(parts.error().code, ErrorCode::kInvalidArgument);
    return parts.error().message;
  };
  EXPECT_THAT(refusal(MakeMessages({{"user", "a"}, {"tool", "b"}})),
              HasSubstr("message 2: there are the roles system, "
                        "user and assistant, but no \"tool\""));
  for (const auto& messages :
       {MakeMessages({{"user", "a"}, {"user", "b"}}),
        MakeMessages({{"user", "a"}, {"system", "b"}}),
        MakeMessages({{"user", "a"}, {"assistant", "b"}, {"assistant", "c"}}),
        MakeMessages({{"system", "a"}, {"assistant", "b"}})}) {
    EXPECT_THAT(refusal(messages), HasSubstr("take turns"));
  }
  EXPECT_THAT(refusal(MakeMessages({{"assistant", "a"}})),
              HasSubstr("message 1"));
  for (const auto& messages :
       {MakeMessages({}), MakeMessages({{"system", "a"}}),
        MakeMessages({{"user", "a"}, {"assistant", "b"}})}) {
    EXPECT_THAT(refusal(messages), HasSubstr("answers begin behind"));
  }
  EXPECT_THAT(refusal(MakeMessages({{"user", "a"}}), false),
              HasSubstr("answers begin behind"));
  ChatMessages image = MakeMessages({{"user", ""}});
  image[0]["content"] = {{{"type", "image"}}};
  EXPECT_THAT(refusal(image), HasSubstr("message 1: its content is no text"));
  EXPECT_THAT(refusal(ChatMessages::object()), HasSubstr("no list"));
}

TEST(NamedFormatTest, EndsOfAnswers) {
  // The ids behind the small vocabulary, in another order than in the pieces.
  const auto tokenizer = MakeChatTokenizer(
      SmallSpmVocab(), {"<|im_end|>", "<|other|>", "<|im_start|>"},
      TokenType::kUserDefined);
  const auto first = static_cast<TokenId>(SmallSpmVocab().tokens.size());
  const auto chatml = MakeNamed("chatml", *tokenizer);
  EXPECT_THAT(chatml->end_tokens(), ElementsAre(first));
  EXPECT_THAT(chatml->end_texts(), ElementsAre("<|im_end|>"));
  EXPECT_THAT(chatml->reserved_tokens(),
              ElementsAre(1, 2, 259, first, first + 1, first + 2));
  const auto llama2 = MakeNamed("llama2", *tokenizer);
  EXPECT_THAT(llama2->end_tokens(), ElementsAre(2));  // </s>
  EXPECT_THAT(llama2->end_texts(), ElementsAre("[INST]"));
  EXPECT_THAT(llama2->reserved_tokens(),
              ElementsAre(1, 2, 259, first, first + 1, first + 2));
  EXPECT_TRUE(llama2->reasoning().empty());
}

TEST(NamedFormatTest, ThoughtsAreTheVocabularys) {
  const auto tokenizer =
      MakeChatTokenizer(SmallBpeVocab(), {"<think>", "</think>"});
  EXPECT_EQ(MakeNamed("chatml", *tokenizer)->reasoning().begin, "<think>");
}

// For every format: turn by turn in tokens is the whole text in tokens.
TEST(NamedFormatTest, TurnsTokenizeAsTheWholeText) {
  for (const bool is_spm : {true, false}) {
    Vocab vocab = is_spm ? SmallSpmVocab() : SmallBpeVocab();
    const auto tokenizer = MakeChatTokenizer(
        vocab, {"<|im_start|>", "<|im_end|>", "<|end|>", "<|eot_id|>",
                "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>",
                "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>"});
    for (const std::string_view name : ChatTemplateNames()) {
      const auto parts = Rendered(*MakeNamed(name, *tokenizer),
                                  MakeMessages({{"system", "a cat"},
                                                {"user", "the hat"},
                                                {"assistant", " the cat"},
                                                {"user", "in a hat"}}));
      const auto tokens = tokenizer->EncodeParts(parts, {});
      const auto whole = tokenizer->Encode(
          Join(parts), {.add_special = false, .parse_special = true});
      ASSERT_TRUE(tokens && whole);
      EXPECT_EQ(*tokens, *whole) << name << (is_spm ? ", SPM" : ", BPE");
    }
  }
}

}  // namespace
}  // namespace thermocline::text
