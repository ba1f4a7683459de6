// tokenizer.json: BPE over bytes, or over characters as SentencePiece makes it.
#ifndef THERMOCLINE_CONVERT_HF_TOKENIZER_JSON_H_
#define THERMOCLINE_CONVERT_HF_TOKENIZER_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convert/json.h"
#include "convert/vocab_builder.h"

namespace thermocline::convert {

// kCorrupt; kUnsupported: another kind of model, or a step in it that is not
// known, named.
Result<VocabDraft> DraftOfTokenizerJson(const NamedText& tokenizer,
                                        uint64_t num_rows);

// The member "added_tokens". kCorrupt.
struct AddedToken {
  std::string text;
  const Json* id;  // may be anything; null: absent
  bool is_special;
};
Result<std::vector<AddedToken>> ReadAddedTokens(const JsonFields& tokenizer);

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_HF_TOKENIZER_JSON_H_
