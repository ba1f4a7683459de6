// SentencePiece's BPE: characters merge by the score of what they become.
#ifndef THERMOCLINE_TEXT_SPM_H_
#define THERMOCLINE_TEXT_SPM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/char_pieces.h"
#include "text/vocab_tokenizer.h"

namespace thermocline::text {

class SpmTokenizer final : public VocabTokenizer {
 public:
  // Requires CheckVocab and CompleteTypes. Tokenizer::Create's errors.
  static Result<std::unique_ptr<const SpmTokenizer>> Create(Vocab vocab);

 private:
  explicit SpmTokenizer(Vocab vocab);

  Status EncodePlain(std::string_view text, bool continues,
                     EncodeScratch& scratch,
                     std::vector<TokenId>* tokens) const final;
  std::string PieceBytes(TokenId id) const final;

  void RankScores();
  void EncodeWord(std::string_view word, EncodeScratch& scratch,
                  std::vector<TokenId>* tokens) const;

  ByteTokens byte_tokens_;
  std::vector<uint32_t> ranks_;  // [V] 0: the highest score
  size_t max_token_bytes_ = 0;
  // No token has a space behind something else, so words are independent: many
  // small problems instead of one large one, with the same result.
  bool words_are_independent_ = true;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_SPM_H_
