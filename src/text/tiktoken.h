// Vocabularies in tiktoken's text form: a line per token, its bytes in base64,
// a space, its rank.
#ifndef THERMOCLINE_TEXT_TIKTOKEN_H_
#define THERMOCLINE_TEXT_TIKTOKEN_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thermocline::text {

// As Vocab has them: bytes as printable characters.
struct TiktokenTable {
  std::vector<std::string> tokens;  // by rank, which is the id
  std::vector<std::string> merges;  // "left right", best first
};

// `file` is the whole content. The form has no merges: bytes merge wherever the
// result is a token, lowest rank first. A token's merge is the last step of
// that, on the token's bytes alone, where that leads to the token; where it
// goes through tokens of higher ranks, it is found for tokens of up to 512
// bytes.
// kCorrupt: a malformed line, named by number; ranks that are not 0 to n - 1
// each once; the same bytes twice; a single byte without a token.
// O(n log n) in the size of the file; for tokens of the last kind the square of
// their length.
Result<TiktokenTable> ParseTiktoken(std::string_view file);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_TIKTOKEN_H_
