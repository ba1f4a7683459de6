// A vocabulary as model files carry it: plain data, no algorithm.
#ifndef THERMOCLINE_TEXT_VOCAB_H_
#define THERMOCLINE_TEXT_VOCAB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace thermocline::text {

using TokenId = int32_t;

enum class TokenType : uint8_t {  // the file format's numbers
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Converters give it to tokens that were added to a SentencePiece vocabulary
// afterwards. Those part a text; the model's own symbols stand inside of it.
inline constexpr float kAddedTokenScore = -1000.0f;

enum class VocabKind {
  kSpm,      // SentencePiece: merges by score, U+2581 for space, byte tokens
  kBpe,      // byte-level BPE: merges by rank, bytes as printable characters
  kCharBpe,  // BPE over characters: merges by rank, else as SentencePiece
};

struct Vocab {
  VocabKind kind = VocabKind::kSpm;
  std::string pre;  // name of the BPE pre-tokenizer; empty if not given
  std::vector<std::string> tokens;  // [V], as stored
  std::vector<float> scores;        // [V], or empty: all 0
  std::vector<TokenType> types;     // [V], or empty: all normal
  std::vector<std::string>
      merges;  // "left right", best first; BPE of both kinds
  std::optional<TokenId> bos, eos, eot, eom, unk, pad;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;  // SPM
  // That space goes in front of a whole text only, not behind special tokens.
  bool space_prefix_once = false;
  // Special tokens that, found in text, swallow the white space in front of
  // them (lstrip) and behind them (rstrip).
  std::vector<TokenId> lstrip, rstrip;

  // The BOS that goes in front of a text, if the vocabulary asks for one.
  std::optional<TokenId> added_bos() const {
    return add_bos ? bos : std::nullopt;
  }
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_VOCAB_H_
