// For tests: tokenizers of small vocabularies, and what they make of texts.
#ifndef THERMOCLINE_TEXT_TEST_TOKENIZER_H_
#define THERMOCLINE_TEXT_TEST_TOKENIZER_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "text/tokenizer.h"

namespace thermocline::text {

inline constexpr EncodeOptions kPlain = {.add_special = false,
                                         .parse_special = false};

inline std::unique_ptr<const Tokenizer> MakeTokenizer(Vocab vocab) {
  auto tokenizer = Tokenizer::Create(std::move(vocab));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *std::move(tokenizer);
}

// The stored texts of the tokens of a text that is read as plain, with '|'
// between; the message where there are none.
inline std::string JoinedTokens(const Tokenizer& tokenizer,
                                std::string_view text) {
  const auto ids = tokenizer.Encode(text, kPlain);
  if (!ids) return ids.error().message;
  std::string joined;
  for (const TokenId id : *ids) {
    joined += (joined.empty() ? "" : "|") +
              tokenizer.vocab().tokens[static_cast<size_t>(id)];
  }
  return joined;
}

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_TEST_TOKENIZER_H_
