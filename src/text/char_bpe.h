// BPE over characters, as Gemma 4 has it: the characters of a line merge by the
// rank of the merge, spaces are written as U+2581.
#ifndef THERMOCLINE_TEXT_CHAR_BPE_H_
#define THERMOCLINE_TEXT_CHAR_BPE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/char_pieces.h"
#include "text/merge_symbols.h"
#include "text/vocab_tokenizer.h"

namespace thermocline::text {

class CharBpeTokenizer final : public VocabTokenizer {
 public:
  // Requires CheckVocab and CompleteTypes. Tokenizer::Create's errors.
  static Result<std::unique_ptr<const CharBpeTokenizer>> Create(Vocab vocab);

 private:
  explicit CharBpeTokenizer(Vocab vocab);

  Status EncodePlain(std::string_view text, bool continues,
                     EncodeScratch& scratch,
                     std::vector<TokenId>* tokens) const final;
  std::string PieceBytes(TokenId id) const final;

  void EncodeWord(std::string_view word, EncodeScratch& scratch,
                  std::vector<TokenId>* tokens) const;
  // Merges the symbols in `scratch`, appends what is left, and forgets them.
  void EncodeSymbols(EncodeScratch& scratch,
                     std::vector<TokenId>* tokens) const;
  // Appends the tokens of the characters of a text that is no token.
  void EncodeCharacters(std::string_view text,
                        std::vector<TokenId>* tokens) const;

  ByteTokens byte_tokens_;
  MergeSymbols merges_;
  // No merge puts a space behind something else, so words are independent.
  bool words_are_independent_ = true;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_CHAR_BPE_H_
