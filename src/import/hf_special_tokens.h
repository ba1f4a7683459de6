// What a folder's small files say of its vocabulary: added tokens, which tokens
// begin and end texts.
#ifndef THERMOCLINE_IMPORT_HF_SPECIAL_TOKENS_H_
#define THERMOCLINE_IMPORT_HF_SPECIAL_TOKENS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "import/json.h"
#include "import/vocab_builder.h"

namespace thermocline::importer {

// tokenizer_config.json, special_tokens_map.json: objects, empty if absent.
struct SpecialSources {
  JsonFields config;
  JsonFields map;
  // Where the tokenizer's files name none: ids from the model's config.
  std::optional<int64_t> bos_id, pad_id;
  std::vector<int64_t> eos_ids;  // all that end a text, the main one first
};

// added_tokens.json, an object of ids by text: user-defined tokens. Renames
// rows that the vocabulary had in store for them; those outside of the
// embedding are ignored with a warning. kCorrupt.
Status AddFromAddedTokens(const JsonFields& added, VocabDraft& draft);

// "added_tokens" of tokenizer.json beside a vocabulary from another file:
// control or user-defined. kCorrupt; those that contradict what the other files
// gave, or have no row, are ignored with a warning. For SPM, also whether the
// space in front of a text is put behind special tokens.
Status AddFromTokenizerJson(const NamedText& tokenizer, VocabDraft& draft);

// "added_tokens_decoder" of tokenizer_config.json: tokens by id, control or
// user-defined. Like added_tokens.json, or, unless `may_contradict`, like those
// of tokenizer.json.
Status AddFromDecoder(const JsonFields& config, bool may_contradict,
                      VocabDraft& draft);

// Sets bos, eos, unk, pad, eot, eom, add_bos, add_eos and, for SPM,
// add_space_prefix of draft.vocab; makes control tokens of those named.
// An empty name counts as none. kCorrupt: a BOS or EOS that is no token. Others
// that are none, and ids outside of the vocabulary, are ignored with a warning.
Status ReadSpecialTokens(const SpecialSources& sources, VocabDraft& draft);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_SPECIAL_TOKENS_H_
