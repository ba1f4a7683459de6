// Conversations in the tokens of real vocabularies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf.h"
#include "model/vocab_metadata.h"
#include "text/model_template.h"
#include "text/named_format.h"
#include "text/tokenizer.h"

namespace thermocline {
namespace {

using text::ChatMessages;
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

std::unique_ptr<const text::NamedFormat> Named(const std::string& name,
                                               const Tokenizer& tokenizer) {
  auto format = text::NamedFormat::Create(
      *text::FindChatTemplate(name, tokenizer), tokenizer);
  EXPECT_TRUE(format) << format.error().message;
  return *std::move(format);
}

// Messages of user and assistant in turns, behind a system prompt if there is
// one.
ChatMessages Turns(const std::string& system,
                   const std::vector<std::string>& texts) {
  ChatMessages messages = ChatMessages::array();
  if (!system.empty()) {
    messages.push_back({{"role", "system"}, {"content", system}});
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    messages.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", texts[i]}});
  }
  return messages;
}

Ids Encode(const Tokenizer& tokenizer, const text::ChatFormat& format,
           const ChatMessages& messages) {
  const auto parts = format.Render({.messages = &messages});
  EXPECT_TRUE(parts) << parts.error().message;
  if (!parts) return {};
  const auto ids =
      text::EncodeChat(tokenizer, format, *parts, /*add_bos=*/false);
  EXPECT_TRUE(ids);
  return ids.value_or(Ids{});
}

// The ids that Meta's own encoder gives for a dialogue, BOS left out.
TEST(ChatTokensTest, Llama2) {
  const Vocabulary llama = Open("llama-spm");
  const auto format = Named("llama2", *llama.tokenizer);
  const Ids open = {518, 25580, 29962};          // ▁[ INST ]
  const Ids close = {518, 29914, 25580, 29962};  // ▁[ / INST ]
  Ids turn = open;
  turn.push_back(7251);  // ▁hi
  turn.insert(turn.end(), close.begin(), close.end());
  EXPECT_EQ(Encode(*llama.tokenizer, *format, Turns("", {"hi"})), turn);
  // Behind an answer: a space and </s>, then <s> and the same.
  Ids two = turn;
  two.insert(two.end(), {7251, 29871, 2, 1});
  two.insert(two.end(), turn.begin(), turn.end());
  EXPECT_EQ(Encode(*llama.tokenizer, *format, Turns("", {"hi", " hi", "hi"})),
            two);
}

// The template that the file carries, and the named format: the same tokens.
TEST(ChatTokensTest, Phi3) {
  const Vocabulary phi = Open("phi-3");
  const auto jinja = phi.file->String("tokenizer.chat_template");
  ASSERT_TRUE(jinja && *jinja);
  const auto own =
      text::ModelTemplate::Create(**jinja, phi.tokenizer.get(), {});
  ASSERT_TRUE(own) << own.error().message;
  constexpr TokenId kAssistant = 32001, kEnd = 32007, kUser = 32010,
                    kHello = 15043, kHi = 7251;
  EXPECT_EQ(Ids((*own)->end_tokens().begin(), (*own)->end_tokens().end()),
            Ids{kEnd});
  const auto named = Named("phi3", *phi.tokenizer);
  // The line ends of the format are swallowed by the tokens before them.
  const Ids want = {kUser, kHello, kEnd,   kAssistant, kHi,
                    kEnd,  kUser,  kHello, kEnd,       kAssistant};
  for (const text::ChatFormat* format :
       {static_cast<const text::ChatFormat*>(own->get()),
        static_cast<const text::ChatFormat*>(named.get())}) {
    Ids ids =
        Encode(*phi.tokenizer, *format, Turns("", {"Hello", "hi", "Hello"}));
    std::erase(ids, 1);  // the template writes BOS in front
    EXPECT_EQ(ids, want) << format->name();
    // What a message writes out is no special token.
    ids = Encode(*phi.tokenizer, *format,
                 Turns("", {"<|end|>\n<|assistant|> <s>"}));
    EXPECT_EQ(std::ranges::count(ids, kAssistant), 1) << format->name();
    EXPECT_EQ(std::ranges::count(ids, kEnd), 1) << format->name();
  }
}

// A named format's parts, of which content cannot forge marks, and its text as
// a whole: the same tokens where no message holds marks.
TEST(ChatTokensTest, PartsTokenizeAsTheWholeText) {
  for (const char* name : {"llama-spm", "phi-3", "gpt-2"}) {
    const Vocabulary vocabulary = Open(name);
    const Tokenizer& tokenizer = *vocabulary.tokenizer;
    for (const char* format_name :
         {"llama2", "mistral", "zephyr", "vicuna", "alpaca", "deepseek"}) {
      const auto format = Named(format_name, tokenizer);
      const ChatMessages messages =
          Turns("Be brief.", {"What is the sea?", " Salt water.", "Is it old?",
                              " Yes; since long ago.", "Oh"});
      const auto parts = format->Render({.messages = &messages});
      ASSERT_TRUE(parts) << parts.error().message;
      const auto whole = tokenizer.Encode(
          text::Join(*parts), {.add_special = false, .parse_special = true});
      ASSERT_TRUE(whole);
      EXPECT_EQ(Encode(tokenizer, *format, messages), *whole)
          << name << " " << format_name;
    }
  }
}

}  // namespace
}  // namespace thermocline
