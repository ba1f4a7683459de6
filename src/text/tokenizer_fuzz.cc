// Any bytes come back from their tokens, whole and streamed, and never crash
// the parser of special tokens.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/small_vocabs.h"
#include "text/tiktoken.h"
#include "text/tokenizer.h"

namespace {

using thermocline::text::StreamDecoder;
using thermocline::text::TextPart;
using thermocline::text::Tokenizer;
using thermocline::text::TokenType;

std::vector<std::unique_ptr<const Tokenizer>> MakeTokenizers() {
  std::vector<std::unique_ptr<const Tokenizer>> tokenizers;
  const auto add = [&](thermocline::text::Vocab vocab) {
    auto tokenizer = Tokenizer::Create(std::move(vocab));
    TC_CHECK(tokenizer.has_value());
    tokenizers.push_back(*std::move(tokenizer));
  };
  add(thermocline::text::SmallSpmVocab());
  add(thermocline::text::SmallCharBpeVocab());
  for (const char* pre :
       {"gpt-2", "llama-bpe", "qwen2", "falcon", "starcoder", "deepseek-llm",
        "deepseek-coder", "default", "qwen35", "gpt-4o", "kimi-k2",
        "seed-coder", "minicpm5", "deepseek-v3"}) {
    add(thermocline::text::SmallBpeVocab(pre));
  }
  return tokenizers;
}

// All but byte-level BPE write spaces as U+2581, so text with that character in
// it comes back with spaces.
std::string ExpectedText(const Tokenizer& tokenizer, std::string_view bytes) {
  constexpr std::string_view kSpace = "\u2581";
  std::string text(bytes);
  if (tokenizer.vocab().kind == thermocline::text::VocabKind::kBpe) return text;
  for (size_t i = 0; (i = text.find(kSpace, i)) != std::string::npos;) {
    text.replace(i, kSpace.size(), " ");
  }
  return text;
}

void CheckRoundTrip(const Tokenizer& tokenizer, std::string_view bytes) {
  const std::string expected = ExpectedText(tokenizer, bytes);
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.Encode(bytes, {false, parse_special});
    TC_CHECK(ids.has_value());
    TC_CHECK(tokenizer.Decode(*ids, /*show_special=*/true) == expected);
    StreamDecoder decoder;
    std::string streamed, joined;
    for (const auto id : *ids) {
      joined += tokenizer.Piece(id, true);
      streamed += decoder.Push(tokenizer.Piece(id, true));
    }
    TC_CHECK(streamed + decoder.Flush() == joined);
  }
}

// The same text in parts, of which the middle one is content.
void CheckParts(const Tokenizer& tokenizer, std::string_view bytes) {
  const size_t third = bytes.size() / 3;
  const std::vector<TextPart> parts = {
      {std::string(bytes.substr(0, third)), true},
      {std::string(bytes.substr(third, third)), false},
      {std::string(bytes.substr(2 * third)), true}};
  const auto ids = tokenizer.EncodeParts(parts, {});
  TC_CHECK(ids.has_value());
  TC_CHECK(tokenizer.Decode(*ids, /*show_special=*/true) ==
           ExpectedText(tokenizer, bytes));
  const auto content = tokenizer.EncodeParts({{{std::string(bytes), false}}},
                                             {.previous = 1, .reserved = {}});
  TC_CHECK(content.has_value());
  for (const auto id : *content) {
    TC_CHECK(tokenizer.vocab().types[static_cast<size_t>(id)] !=
             TokenType::kControl);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizers = MakeTokenizers();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto& tokenizer : tokenizers) {
    CheckRoundTrip(*tokenizer, bytes);
    CheckParts(*tokenizer, bytes);
  }
  (void)thermocline::text::ParseTiktoken(bytes);
  return 0;
}
