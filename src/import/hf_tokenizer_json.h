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
  // Found in text, it swallows the white space in front of it, and behind it.
  bool lstrip, rstrip;
};
Result<std::vector<AddedToken>> ReadAddedTokens(const JsonFields& tokenizer);

// One of them, also of "added_tokens_decoder". A warning names settings that
// are left out. kCorrupt.
Result<AddedToken> ReadAddedToken(const JsonFields& fields);

// Keeps what the token swallows in draft.vocab. Ids without a token: nothing.
void KeepStripping(const AddedToken& token, uint64_t id, VocabDraft& draft);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_TOKENIZER_JSON_H_
