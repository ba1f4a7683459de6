// What both tokenizers share: special tokens, BOS and EOS, pieces.
#ifndef THERMOCLINE_TEXT_VOCAB_TOKENIZER_H_
#define THERMOCLINE_TEXT_VOCAB_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "text/pair_merger.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"
#include "text/word_memory.h"

namespace thermocline::text {

// Memory of one Encode call, reused from word to word.
struct EncodeScratch {
  PairMerger merger;
  std::vector<uint32_t> symbols;
  std::vector<uint32_t> offsets;
  std::string text;
  WordMemory words;
};

class VocabTokenizer : public Tokenizer {
 public:
  Result<std::vector<TokenId>> Encode(std::string_view text,
                                      const EncodeOptions& options) const final;
  Result<std::vector<TokenId>> EncodeParts(
      std::span<const TextPart> parts,
      const EncodePartsOptions& options) const final;
  std::string_view Piece(TokenId id, bool show_special) const final;

 protected:
  // Requires CheckVocab and CompleteTypes.
  explicit VocabTokenizer(Vocab vocab);

  // Must have succeeded before anything else is called; calls PieceBytes.
  Status Init();

  // Appends the tokens of a text without special tokens in it; empty: of the
  // space that goes in front of a text, if any. It begins a text, unless it
  // `continues` one. It is there, and so is `tokens`, as long as the scratch.
  virtual Status EncodePlain(std::string_view text, bool continues,
                             EncodeScratch& scratch,
                             std::vector<TokenId>* tokens) const = 0;

  // The bytes of a normal or byte token.
  virtual std::string PieceBytes(TokenId id) const = 0;

  const std::string& TokenText(TokenId id) const {
    return vocab_.tokens[static_cast<size_t>(id)];
  }
  TokenType Type(TokenId id) const {
    return vocab_.types[static_cast<size_t>(id)];
  }

  // The token that plain text may become; never control or unknown ones, which
  // text must not be able to forge.
  std::optional<TokenId> FindPlain(std::string_view text) const;
  // The same as a function, which must not outlive the tokenizer.
  std::function<std::optional<TokenId>(std::string_view)> PlainFinder() const {
    return [this](std::string_view text) { return FindPlain(text); };
  }

  // What stands for text that has no token, if anything. Not a control token
  // (StarCoder's is <|endoftext|>), which text must not become.
  std::optional<TokenId> Unknown() const {
    const bool is_usable =
        vocab_.unk && Type(*vocab_.unk) != TokenType::kControl;
    return is_usable ? vocab_.unk : std::nullopt;
  }

 private:
  // Control and unknown tokens: they match, and show, only when asked to.
  bool IsHidden(TokenId id) const {
    return Type(id) == TokenType::kControl || Type(id) == TokenType::kUnknown;
  }
  Status BuildFinders();
  void BuildPieces();
  // The finder of what matches in text that a user wrote.
  const SpecialTokenFinder& ContentFinder() const {
    return user_defined_ ? *user_defined_ : all_special_;
  }
  // Appends the tokens of `text`, whose special ones are `matches`, in order.
  // previous: the token before it, if any.
  Status EncodeAround(std::string_view text,
                      std::span<const SpecialMatch> matches,
                      std::optional<TokenId> previous,
                      std::vector<TokenId>* tokens) const;

  std::unordered_map<std::string_view, TokenId, KeyedHash> plain_ids_;
  SpecialTokenFinder all_special_;
  std::optional<SpecialTokenFinder> user_defined_;  // none: the same ones
  std::vector<bool> swallows_space_;                // behind it
  std::vector<bool> swallows_space_before_;         // in front of it
  std::string pieces_;                              // joined
  std::vector<size_t> piece_begins_;                // [V + 1]
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_VOCAB_TOKENIZER_H_
