// What vocabularies over characters share: spaces are written as U+2581, and a
// character without a token becomes a token for each of its bytes.
#ifndef THERMOCLINE_TEXT_CHAR_PIECES_H_
#define THERMOCLINE_TEXT_CHAR_PIECES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/vocab.h"
#include "text/vocab_tokenizer.h"

namespace thermocline::text {

inline constexpr std::string_view kEscapedSpace = "\u2581";

// Appends `text` with spaces as vocabularies write them.
void AppendEscaped(std::string_view text, std::string* escaped);

// Position of the first space behind something other than a space, or npos.
size_t FindInnerSpace(std::string_view escaped);

// Length of the first word of a text that is not escaped yet, the spaces in
// front included; U+2581 counts as a space, as it will be one.
size_t WordLength(std::string_view text);

// Calls encode(escaped), which appends its tokens, with each word of a text
// that is not escaped yet, or with all of it unless `by_words`; but not again
// for what was there before. Requires WordMemory's.
template <typename Encode>
void EncodeEscaped(std::string_view text, bool by_words, EncodeScratch& scratch,
                   std::vector<TokenId>* tokens, Encode&& encode) {
  while (!text.empty()) {
    const size_t num_bytes = by_words ? WordLength(text) : text.size();
    const std::string_view word = text.substr(0, num_bytes);
    text.remove_prefix(num_bytes);
    scratch.words.Append(word, tokens, [&] {
      scratch.text.clear();
      AppendEscaped(word, &scratch.text);
      encode(std::string_view(scratch.text));
    });
  }
}

// The bytes that a normal or byte token stands for. Requires that ByteTokens
// read the vocabulary.
std::string CharPieceBytes(const Vocab& vocab, TokenId id);

// The tokens <0x00> to <0xFF>. Safe from any number of threads after Read.
class ByteTokens {
 public:
  // unknown: what a character becomes whose bytes have no tokens; none: it is
  // left out, which is logged. Requires types. kCorrupt: a token has the type,
  // but no such text.
  Status Read(const Vocab& vocab, std::optional<TokenId> unknown);

  // Appends the tokens of a character that is no token itself, or of a byte
  // that is part of none.
  void Append(std::string_view bytes, std::vector<TokenId>* tokens) const;

 private:
  std::array<TokenId, 256> ids_;  // -1: none
  std::optional<TokenId> unknown_;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_CHAR_PIECES_H_
