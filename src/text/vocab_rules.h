// What a vocabulary's entries mean beyond what the file says of them.
#ifndef THERMOCLINE_TEXT_VOCAB_RULES_H_
#define THERMOCLINE_TEXT_VOCAB_RULES_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/vocab.h"

namespace thermocline::text {

// kCorrupt: no tokens or too many, arrays of other lengths, special ids out of
// range, scores that are not numbers.
Status CheckVocab(const Vocab& vocab);

// Whether a text is written as control tokens are: <|im_start|>, <｜User｜>,
// <|turn>. No training makes such a token of text, which is cut where letters
// meet signs: it was added.
bool LooksLikeControl(std::string_view text);

// Fills in absent types, takes numbers that are no type for normal, and makes
// control tokens of normal ones that look like it, and of those whose text only
// ever is one (<|im_end|>, ...), since conversions have marked them wrongly. A
// type once, for all that asks for it, and not a rule for the marks of a chat:
// what matches in a template is then also what content cannot forge, what ends
// an answer, and what is not shown. User-defined tokens stay so: an exporter
// that knows the difference has made it, and models show some of them.
void CompleteTypes(Vocab* vocab);

// [V] the tokens after which a model has said what it had to say: known texts,
// and the vocabulary's EOS, EOT and EOM. Where there are <|return|> and
// <|call|> they end generation, and <|end|> only a message. Requires
// CompleteTypes.
std::vector<bool> FindEndsOfGeneration(const Vocab& vocab);

// [V] the tokens that, found in text, swallow the white space behind them.
// Few files say so; Phi-3's vocabulary is known by its tokens.
std::vector<bool> FindSpaceSwallowers(const Vocab& vocab);

// [V] the user-defined symbols of a SentencePiece model itself: text goes on
// behind them, as behind a word. Requires CompleteTypes.
std::vector<bool> FindInnerSymbols(const Vocab& vocab);

// The byte that "<0xHH>" names; nullopt for any other text.
std::optional<uint8_t> ParseByteToken(std::string_view text);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_VOCAB_RULES_H_
