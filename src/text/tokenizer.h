// Text to token ids and back.
#ifndef THERMOCLINE_TEXT_TOKENIZER_H_
#define THERMOCLINE_TEXT_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/vocab.h"

namespace thermocline::text {

// The longest text that is encoded: keeps offsets, three bytes per escaped
// space included, within 32 bits, and the number of tokens far from the limit
// of what takes them.
inline constexpr size_t kMaxTextBytes = size_t{1} << 30;

struct EncodeOptions {
  bool add_special = true;     // BOS/EOS where the vocabulary asks for them
  bool parse_special = false;  // control tokens written out in the text match;
                               // user-defined ones always do
};

// A stretch of a text that is put together from what a program writes (markup)
// and what people do (content).
struct TextPart {
  std::string text;
  bool is_markup;
  bool operator==(const TextPart&) const = default;
};

struct EncodePartsOptions {
  std::optional<TokenId> previous;    // what the text follows, if anything
  std::span<const TokenId> reserved;  // sorted; see EncodeParts
};

// Immutable after Create, so safe from any number of threads.
class Tokenizer {
 public:
  // kCorrupt: no tokens or too many, arrays of different lengths, ids out of
  // range, scores that are not numbers, a merge without two sides, more than
  // 2^29 merges, a malformed byte token. kUnsupported: unknown pre-tokenizer,
  // named; more than 1 MiB of special tokens' text. kResourceExhausted: no
  // memory for the pre-tokenizer's patterns. Tolerated, because files have
  // them: empty tokens (never match), the same text twice (the first counts),
  // merges that name no token.
  static Result<std::unique_ptr<const Tokenizer>> Create(Vocab vocab);
  virtual ~Tokenizer() = default;

  // Any bytes, invalid UTF-8 and NUL included. Time linear in text.size() up
  // to a logarithm; memory linear. kResourceExhausted: more than kMaxTextBytes.
  virtual Result<std::vector<TokenId>> Encode(
      std::string_view text, const EncodeOptions& options) const = 0;

  // The parts as one text: words go across their borders. Control tokens match
  // within a markup part only, and so do the `reserved` ones: content cannot
  // forge them. No BOS or EOS is added. The same errors and cost.
  virtual Result<std::vector<TokenId>> EncodeParts(
      std::span<const TextPart> parts,
      const EncodePartsOptions& options) const = 0;

  // Whether the token has a meaning besides its text: control, user-defined.
  bool IsSpecial(TokenId id) const;

  // Whether such a token has this text. Linear in the vocabulary.
  bool HasSpecial(std::string_view text) const;

  // Whether a text ends in front of the token, and another begins behind it:
  // special, but no symbol of a SentencePiece model itself.
  bool PartsText(TokenId id) const;

  // The bytes that a token stands for; not always whole UTF-8 characters. With
  // show_special, control and unknown tokens give their text, otherwise
  // nothing; unused ones, which fill a matrix up, never any. Requires 0 <= id <
  // num_tokens() (CHECKed).
  virtual std::string_view Piece(TokenId id, bool show_special) const = 0;

  // All pieces joined, without the spaces that Encode put in front of text, at
  // the start and, unless space_prefix_once, behind special tokens (SPM with
  // add_space_prefix). Gives
  // back what was encoded, but for U+2581, which SPM and BPE over characters
  // cannot tell from a space, white space that special tokens swallow, a space
  // that it puts behind an unknown token that was written out and read as
  // special, and what the vocabulary has no token or an unused one for.
  std::string Decode(std::span<const TokenId> ids, bool show_special) const;

  // As given, except that every token has a type, and tokens whose text only
  // ever is a control token (<|im_end|>, ...) have that type.
  const Vocab& vocab() const { return vocab_; }
  int num_tokens() const { return static_cast<int>(vocab_.tokens.size()); }

  // EOS, EOT, EOM, and the texts by which models end their turn
  // (<|im_end|>, <|eot_id|>, ...).
  bool IsEndOfGeneration(TokenId id) const;

 protected:
  explicit Tokenizer(Vocab vocab) : vocab_(std::move(vocab)) {}
  Vocab vocab_;
  std::vector<bool> ends_generation_;
  std::vector<bool> is_inner_;  // FindInnerSymbols
};

// Passes bytes through, holding back a UTF-8 character until it is whole, so
// that a terminal never sees half of one.
class StreamDecoder {
 public:
  // Appends the piece; returns what can be shown now. Bytes that can never
  // become valid UTF-8 pass at once.
  std::string Push(std::string_view piece);
  // What is held back, at the end of the stream.
  std::string Flush();

 private:
  std::string pending_;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_TOKENIZER_H_
