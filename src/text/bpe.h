// Byte-level BPE: the bytes of a word merge by the rank of the merge.
#ifndef THERMOCLINE_TEXT_BPE_H_
#define THERMOCLINE_TEXT_BPE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "text/merge_symbols.h"
#include "text/pretokenizer.h"
#include "text/vocab_tokenizer.h"

namespace thermocline::text {

class BpeTokenizer final : public VocabTokenizer {
 public:
  // Requires CheckVocab and CompleteTypes. Tokenizer::Create's errors.
  static Result<std::unique_ptr<const BpeTokenizer>> Create(Vocab vocab);

 private:
  using Symbol = MergeSymbols::Symbol;

  explicit BpeTokenizer(Vocab vocab);

  Status EncodePlain(std::string_view text, bool continues,
                     EncodeScratch& scratch,
                     std::vector<TokenId>* tokens) const final;
  std::string PieceBytes(TokenId id) const final;

  void ReadBytes();
  void ReadWords();
  void EncodeWord(std::string_view word, EncodeScratch& scratch,
                  std::vector<TokenId>* tokens) const;
  // Appends the tokens of the bytes of a symbol that is none.
  void EncodeBytes(Symbol symbol, std::vector<TokenId>* tokens) const;

  PreTokenizer pre_tokenizer_;
  MergeSymbols merges_;
  std::array<Symbol, 256> byte_symbols_;
  // Whole words by their bytes, where these go before merges.
  std::unordered_map<std::string, TokenId, KeyedHash, std::equal_to<>> words_;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_BPE_H_
