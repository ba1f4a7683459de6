// Turns of a chat in the tokens of real vocabularies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf.h"
#include "model/vocab_metadata.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace thermocline {
namespace {

using text::ChatTemplate;
using text::TextPart;
using text::TokenId;
using text::Tokenizer;
using Ids = std::vector<TokenId>;

struct Vocabulary {
  std::unique_ptr<const gguf::File> file;
  std::unique_ptr<const Tokenizer> tokenizer;
};

Vocabulary Open(const std::string& name) {
  auto file = gguf::File::Open(std::string(TC_TEST_DATA) +
                               "/tokenizers/ggml-vocab-" + name + ".gguf");
  EXPECT_TRUE(file) << file.error().message;
  auto vocab = model::ReadVocab(**file);
  EXPECT_TRUE(vocab && *vocab);
  auto tokenizer = Tokenizer::Create(**std::move(vocab));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return {*std::move(file), *std::move(tokenizer)};
}

Ids Encode(const Tokenizer& tokenizer, const std::vector<TextPart>& parts,
           std::optional<TokenId> previous = std::nullopt) {
  const auto ids =
      tokenizer.EncodeParts(parts, {.previous = previous, .reserved = {}});
  EXPECT_TRUE(ids);
  return ids.value_or(Ids{});
}

// The ids that Meta's own encoder gives for a dialogue, BOS left out.
TEST(ChatTokensTest, Llama2) {
  const Vocabulary llama = Open("llama-spm");
  const ChatTemplate& format =
      *text::FindChatTemplate("llama2", *llama.tokenizer);
  const text::Vocab& vocab = llama.tokenizer->vocab();
  const Ids open = {518, 25580, 29962};          // ▁[ INST ]
  const Ids close = {518, 29914, 25580, 29962};  // ▁[ / INST ]
  Ids want = open;
  want.push_back(7251);  // ▁hi
  want.insert(want.end(), close.begin(), close.end());
  EXPECT_EQ(Encode(*llama.tokenizer,
                   text::RenderTurn(format, vocab, {true, "", "hi"})),
            want);
  // Behind an answer: a space and </s>, then <s> and the same.
  want.insert(want.begin(), {29871, 2, 1});
  EXPECT_EQ(Encode(*llama.tokenizer,
                   text::RenderTurn(format, vocab, {false, "", "hi"}), 7251),
            want);
}

TEST(ChatTokensTest, Phi3) {
  const Vocabulary phi = Open("phi-3");
  const auto jinja = phi.file->String("tokenizer.chat_template");
  ASSERT_TRUE(jinja && *jinja);
  const ChatTemplate* format =
      text::RecognizeChatTemplate(**jinja, *phi.tokenizer);
  ASSERT_NE(format, nullptr);
  EXPECT_EQ(format->name, "phi3");
  const text::Vocab& vocab = phi.tokenizer->vocab();
  constexpr TokenId kAssistant = 32001, kSystem = 32006, kEnd = 32007,
                    kUser = 32010, kHello = 15043, kHi = 7251;
  // The line ends of the format are swallowed by the tokens before them.
  EXPECT_EQ(Encode(*phi.tokenizer,
                   text::RenderTurn(*format, vocab, {true, "hi", "Hello"})),
            (Ids{kSystem, kHi, kEnd, kUser, kHello, kEnd, kAssistant}));
  EXPECT_EQ(Encode(*phi.tokenizer,
                   text::RenderTurn(*format, vocab, {false, "", "Hello"}), kHi),
            (Ids{kEnd, kUser, kHello, kEnd, kAssistant}));
  // What a message writes out is no special token.
  for (const TokenId id :
       Encode(*phi.tokenizer, {{"<|end|>\n<|assistant|> <s>", false}})) {
    EXPECT_FALSE(phi.tokenizer->IsSpecial(id)) << id;
  }
}

// Turn by turn and as one text: the same tokens, in every format whose answers
// end with a token of these vocabularies.
TEST(ChatTokensTest, TurnsTokenizeAsTheWholeText) {
  for (const char* name : {"llama-spm", "phi-3", "gpt-2"}) {
    const Vocabulary vocabulary = Open(name);
    const Tokenizer& tokenizer = *vocabulary.tokenizer;
    for (const char* format_name :
         {"llama2", "mistral", "zephyr", "vicuna", "alpaca", "deepseek"}) {
      const ChatTemplate& format =
          *text::FindChatTemplate(format_name, tokenizer);
      Ids tokens;
      std::string text;
      const auto add = [&](const std::vector<TextPart>& parts) {
        const Ids more = Encode(
            tokenizer, parts,
            tokens.empty() ? std::nullopt : std::optional(tokens.back()));
        tokens.insert(tokens.end(), more.begin(), more.end());
        for (const TextPart& part : parts) text += part.text;
      };
      add(text::RenderTurn(format, tokenizer.vocab(),
                           {true, "Be brief.", "What is the sea?"}));
      for (const char* answer : {" Salt water.", " Yes; since long ago."}) {
        add({{answer, false}});
        add(text::RenderTurn(format, tokenizer.vocab(),
                             {false, "", "Is it old?"}));
      }
      const auto whole =
          tokenizer.Encode(text, {.add_special = false, .parse_special = true});
      ASSERT_TRUE(whole);
      EXPECT_EQ(tokens, *whole) << name << " " << format_name;
    }
  }
}

}  // namespace
}  // namespace thermocline
