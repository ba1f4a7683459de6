#include "text/chat_template.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "text/small_vocabs.h"

namespace thermocline::text {
namespace {

using ::testing::ElementsAre;

// The small vocabulary with these special tokens behind it.
std::unique_ptr<const Tokenizer> MakeChatTokenizer(
    Vocab vocab, std::initializer_list<std::string_view> special = {},
    TokenType type = TokenType::kControl) {
  for (const std::string_view text : special) AddToken(&vocab, text, type);
  auto tokenizer = Tokenizer::Create(std::move(vocab));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *std::move(tokenizer);
}

std::string Join(const std::vector<TextPart>& parts) {
  std::string text;
  for (const TextPart& part : parts) text += part.text;
  return text;
}

// A system prompt, two messages answered, a third one: what the model reads.
std::string RenderConversation(const ChatTemplate& format, const Vocab& vocab) {
  return Join(RenderTurn(format, vocab, {true, "Be kind", "Hello"})) +
         "Hi there" +
         Join(RenderTurn(format, vocab, {false, "not again", "Who are you?"})) +
         "I am Tim" + Join(RenderTurn(format, vocab, {false, "", "Bye"}));
}

std::string RenderConversation(std::string_view name,
                               const Tokenizer& tokenizer) {
  const ChatTemplate* format = FindChatTemplate(name, tokenizer);
  if (format == nullptr) return "no such template";
  EXPECT_EQ(format->name, name);
  return RenderConversation(*format, tokenizer.vocab());
}

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

TEST(ChatTemplateTest, ThreeTurnsInEveryFormat) {
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

TEST(ChatTemplateTest, MistralByItsVocabulary) {
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
  // Plain text that happens to be in the vocabulary is no special token.
  const auto plain =
      MakeChatTokenizer(SmallSpmVocab(), {"[INST]"}, TokenType::kNormal);
  EXPECT_EQ(FindChatTemplate("mistral", *plain)->before_user, "[INST] ");
}

TEST(ChatTemplateTest, DeepSeekByItsVocabulary) {
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

TEST(ChatTemplateTest, WithoutSystemPromptNothingStandsForIt) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  for (const std::string_view name : ChatTemplateNames()) {
    const ChatTemplate& format = *FindChatTemplate(name, *tokenizer);
    const Vocab& vocab = tokenizer->vocab();
    const auto parts = RenderTurn(format, vocab, {true, "", "Hello"});
    EXPECT_THAT(
        parts,
        ElementsAre(TextPart{std::string(format.before_user), true},
                    TextPart{"Hello", false},
                    TextPart{RenderTurn(format, vocab, {true, "", ""})[2]}))
        << name;
  }
}

TEST(ChatTemplateTest, WhiteSpaceGoesWhereTheModelsTemplateTrims) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  for (const std::string_view name : ChatTemplateNames()) {
    const ChatTemplate& format = *FindChatTemplate(name, *tokenizer);
    const bool trims = name == "llama2" || name == "llama3" || name == "gemma";
    for (const auto& [user, want] :
         {std::pair(" a b\n", trims ? "a b" : " a b\n"),
          std::pair(" \n", trims ? "" : " \n")}) {
      const auto parts =
          RenderTurn(format, tokenizer->vocab(), {true, "", user});
      EXPECT_EQ(parts[1], (TextPart{want, false})) << name;
    }
  }
}

TEST(ChatTemplateTest, TokensThatAVocabularyLacksAreLeftOut) {
  Vocab vocab = SmallSpmVocab();
  vocab.bos.reset();
  vocab.eos.reset();
  const auto tokenizer = MakeChatTokenizer(vocab);
  EXPECT_EQ(Join(RenderTurn(*FindChatTemplate("llama2", *tokenizer),
                            tokenizer->vocab(), {false, "", "Bye"})),
            " [INST] Bye [/INST]");
}

// What a message holds is never taken for a piece of the format.
TEST(ChatTemplateTest, BracesInMessagesStay) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  const auto parts =
      RenderTurn(*FindChatTemplate("zephyr", *tokenizer), tokenizer->vocab(),
                 {true, "{eos}{bos}", "{eos}</s>{system}"});
  EXPECT_THAT(
      parts,
      ElementsAre(TextPart{"<|system|>\n", true}, TextPart{"{eos}{bos}", false},
                  TextPart{"</s>\n", true}, TextPart{"<|user|>\n", true},
                  TextPart{"{eos}</s>{system}", false},
                  TextPart{"</s>\n<|assistant|>\n", true}));
}

std::string NameOf(const ChatTemplate* format) {
  return format == nullptr ? "unknown" : std::string(format->name);
}

// Fragments in the manner of the models' own templates.
TEST(RecognizeChatTemplateTest, ByTheTextsOfRealTemplates) {
  const auto plain = MakeChatTokenizer(SmallSpmVocab());
  const auto name_of = [&](std::string_view jinja) {
    return NameOf(RecognizeChatTemplate(jinja, *plain));
  };
  EXPECT_EQ(name_of("{{'<|im_start|>' + m.role + '\\n' + m.content + "
                    "'<|im_end|>\\n'}}"),
            "chatml");
  EXPECT_EQ(name_of("{% set c = '<<SYS>>\\n' + s %}{{ bos_token + '[INST] ' + "
                    "c.strip() + ' [/INST]' }}"),
            "llama2");
  EXPECT_EQ(name_of("'<|start_header_id|>' + m['role'] + "
                    "'<|end_header_id|>\\n\\n' + m.content|trim + "
                    "'<|eot_id|>'"),
            "llama3");
  EXPECT_EQ(name_of("{{ '[INST] ' + m.content + ' [/INST]' }}"), "mistral");
  EXPECT_EQ(name_of("'<|user|>\n' + m.content + '<|end|>\n<|assistant|>\n'"),
            "phi3");
  EXPECT_EQ(name_of("'<|' + m['role'] + '|>\\n' + m['content'] + '<|end|>\\n'"
                    " ... '<|assistant|>\\n' ... eos_token"),
            "phi3");
  EXPECT_EQ(name_of("'<start_of_turn>' + role + '\\n' + m.content | trim"),
            "gemma");
  EXPECT_EQ(name_of("'<|user|>\n' + message['content'] + eos_token }} "
                    "{{ '<|assistant|>' }}"),
            "zephyr");
  for (const std::string_view end : {"\n", "\\n"}) {
    EXPECT_EQ(name_of(fmt::format("{{{{ '<|user|>{0}' + message['content'] + "
                                  "'{0}' }}}} {{{{ '<|assistant|>{0}' + "
                                  "message['content'] + eos_token }}}}",
                                  end)),
              "tulu");
  }
  EXPECT_EQ(name_of("{{ 'GPT4 Correct ' + message['role'].title() + ': ' + "
                    "message['content'] + '<|end_of_turn|>'}}"),
            "openchat");
  EXPECT_EQ(name_of("'USER: ' + m + ' ' ... 'ASSISTANT:'"), "vicuna");
  EXPECT_EQ(name_of("'### Instruction:\\n' + m ... '### Response:\\n'"),
            "alpaca");
  EXPECT_EQ(name_of("{{ 'User: ' + m + '\\n\\n' }}{{ 'Assistant: ' + m + "
                    "eos_token }}"),
            "deepseek");
}

TEST(RecognizeChatTemplateTest, TheVocabularyTellsVariants) {
  const std::string instruct = "{{ '[INST] ' + m.content + ' [/INST]' }}";
  EXPECT_EQ(RecognizeChatTemplate(
                instruct, *MakeChatTokenizer(SmallSpmVocab(), {"[INST]"}))
                ->before_user,
            "[INST]");
  EXPECT_EQ(RecognizeChatTemplate(
                instruct, *MakeChatTokenizer(SmallSpmVocab(),
                                             {"[INST]", "[SYSTEM_PROMPT]"}))
                ->before_system,
            "[SYSTEM_PROMPT]");
  const std::string bars = "'<｜User｜>' + m ... '<｜Assistant｜>' + m";
  EXPECT_EQ(RecognizeChatTemplate(
                bars, *MakeChatTokenizer(SmallSpmVocab(), {"<｜User｜>"}))
                ->before_user,
            "<｜User｜>");
  const std::string coder =
      "'### Instruction:\\n' + m + '### Response:\\n' + "
      "m + '\\n<|EOT|>\\n'";
  EXPECT_EQ(RecognizeChatTemplate(
                coder, *MakeChatTokenizer(SmallBpeVocab(), {"<|EOT|>"}))
                ->after_answer,
            "\n<|EOT|>\n");
}

TEST(RecognizeChatTemplateTest, OthersAreNotTakenForOneOfThese) {
  const auto plain = MakeChatTokenizer(SmallSpmVocab());
  for (const std::string_view jinja :
       {// phi-4
        "'<|im_start|>user<|im_sep|>' + m + '<|im_end|>'",
        // no end marker behind the answer either
        "'<|user|>\\n' + message['content'] + '\\n' }} '<|assistant|>\\n' + "
        "message['content'] + '\\n'",
        // Tulu 2, OLMo
        "'<|user|>\n' + message['content'] }} '<|assistant|>\n' + "
        "message['content'] + eos_token }}",
        "'<|user|>\n' + message.content + '\\n' }} '<|assistant|>' eos_token",
        // Phi-4-mini
        "'<|' + role + '|>' + m + '<|end|>' }} {{ '<|assistant|>' }}",
        // Vicuna with line ends
        "'USER: ' + message['content'] + '\n' ... 'ASSISTANT:'",
        "'USER: ' + message['content'] + '\\n' ... 'ASSISTANT:'",
        "'SYSTEM: ' + m + 'USER: ' + m + 'ASSISTANT:'",
        // GLM
        "[gMASK]<sop><|user|>\\n{{ m }}<|assistant|>",
        // Command R, Granite, Exaone
        "'<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + m",
        "'<|start_of_role|>user'", "'[|user|]' + m + '[|endofturn|]'",
        // DeepSeek's texts over a vocabulary without its tokens
        "'<｜User｜>' + m + '<｜Assistant｜>'",
        "'### Instruction:\\n' + m + '### Response:' '<|EOT|>'",
        // not templates at all
        "", "{{ messages }}", "<|im_start", "USER:ASSISTANT"}) {
    EXPECT_EQ(NameOf(RecognizeChatTemplate(jinja, *plain)), "unknown") << jinja;
  }
}

TEST(RecognizeChatTemplateTest, AnyBytesAndSizes) {
  const auto plain = MakeChatTokenizer(SmallSpmVocab());
  const std::string noise("\0\xff{% for %}", 11);
  EXPECT_EQ(RecognizeChatTemplate(noise, *plain), nullptr);
  const std::string large = std::string(1 << 20, '{') + "<start_of_turn>";
  EXPECT_EQ(NameOf(RecognizeChatTemplate(large, *plain)), "gemma");
}

// What a template with this prompt for an answer adds to the format's header,
// or "another".
std::string StartIn(std::string_view name, const std::string& prompt) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab(), {"<｜User｜>"});
  const auto start =
      AnswerStartOf(*FindChatTemplate(name, *tokenizer),
                    "{% if add_generation_prompt %}" + prompt + "{% endif %}",
                    tokenizer->vocab());
  if (start.has_value()) return *start;
  EXPECT_EQ(start.error().code, ErrorCode::kUnsupported);
  return "another";
}

TEST(AnswerStartOfTest, WhatIsBehindTheHeader) {
  struct StartCase {
    std::string_view name;
    std::string prompt, start;
  };
  const StartCase cases[] = {
      {"chatml", "<|im_start|>assistant\n", ""},
      {"chatml", "{{ '<|im_start|>assistant' }}", ""},
      {"chatml", "<|im_start|>assistant\n\n", ""},
      {"chatml", "<|im_start|>assistant\n<think>\n", "<think>\n"},
      {"chatml", "<|im_end|>\n<|im_start|>assistant\n<think>", "<think>"},
      {"chatml", "{{ role }}", ""},
      {"chatml", "Assistant:", "another"},
      {"chatml", "\nAssistant:", "another"},
      {"chatml", "<|im_start|>model\n", "another"},
      {"deepseek", "<｜Assistant｜><think>\n", "<think>\n"},
      {"zephyr", "\n{{ '<|assistant|>' }}\n", ""},
      {"zephyr", "{{ '<|assistant|><think>' }}", "another"},
      {"vicuna", "ASSISTANT: ", ""},
      {"gemma", "<start_of_turn>model\n", ""},
      {"llama3", "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
       ""},
  };
  for (const StartCase& each : cases) {
    EXPECT_EQ(StartIn(each.name, each.prompt), each.start) << each.prompt;
  }
}

TEST(AnswerStartOfTest, IsMarkupOfEveryTurn) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  const ChatTemplate& format = *FindChatTemplate("vicuna", *tokenizer);
  for (const bool is_first : {true, false}) {
    EXPECT_EQ(RenderTurn(format, tokenizer->vocab(),
                         {is_first, "", "Hello", "<think>"})
                  .back(),
              (TextPart{" ASSISTANT:<think>", true}));
  }
}

TEST(ReservedTokensTest, ThoseOfAllPiecesSorted) {
  // The ids behind the small vocabulary, in another order than in the pieces.
  const auto tokenizer = MakeChatTokenizer(
      SmallSpmVocab(), {"<|im_end|>", "<|other|>", "<|im_start|>"},
      TokenType::kUserDefined);
  const auto first = static_cast<TokenId>(SmallSpmVocab().tokens.size());
  const auto tokens =
      ReservedTokens(*FindChatTemplate("chatml", *tokenizer), *tokenizer);
  ASSERT_TRUE(tokens);
  EXPECT_THAT(*tokens, ElementsAre(1, 2, first, first + 2));
  EXPECT_THAT(
      *ReservedTokens(*FindChatTemplate("llama2", *tokenizer), *tokenizer),
      ElementsAre(1, 2));  // <s> </s>
}

// For every format: the turns in tokens are the whole text in tokens.
TEST(RenderTurnTest, TurnsTokenizeAsTheWholeText) {
  for (const bool is_spm : {true, false}) {
    Vocab vocab = is_spm ? SmallSpmVocab() : SmallBpeVocab();
    const auto tokenizer = MakeChatTokenizer(
        vocab, {"<|im_start|>", "<|im_end|>", "<|end|>", "<|eot_id|>",
                "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>",
                "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>"});
    for (const std::string_view name : ChatTemplateNames()) {
      const ChatTemplate& format = *FindChatTemplate(name, *tokenizer);
      std::vector<TokenId> tokens;
      std::string text;
      const auto add = [&](const std::vector<TextPart>& parts) {
        const auto more = tokenizer->EncodeParts(
            parts, {.previous = tokens.empty() ? std::nullopt
                                               : std::optional(tokens.back()),
                    .reserved = {}});
        ASSERT_TRUE(more);
        tokens.insert(tokens.end(), more->begin(), more->end());
        text += Join(parts);
      };
      add(RenderTurn(format, tokenizer->vocab(), {true, "a cat", "the hat"}));
      for (int i = 0; i < 2; ++i) {
        add({{" the cat", false}});  // the model's answer
        add(RenderTurn(format, tokenizer->vocab(), {false, "", "in a hat"}));
      }
      const auto whole = tokenizer->Encode(
          text, {.add_special = false, .parse_special = true});
      ASSERT_TRUE(whole);
      EXPECT_EQ(tokens, *whole) << name << (is_spm ? ", SPM" : ", BPE");
    }
  }
}

}  // namespace
}  // namespace thermocline::text
