// tokenizer.json: BPE over bytes, or over characters as SentencePiece makes it.
#ifndef THERMOCLINE_IMPORT_HF_TOKENIZER_JSON_H_
#define THERMOCLINE_IMPORT_HF_TOKENIZER_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "import/json.h"
#include "import/vocab_builder.h"

namespace thermocline::importer {

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

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_TOKENIZER_JSON_H_
