// BPE's merges as Hugging Face's files write them.
#ifndef THERMOCLINE_IMPORT_HF_MERGES_H_
#define THERMOCLINE_IMPORT_HF_MERGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "import/json.h"
#include "import/vocab_builder.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

namespace thermocline::importer {

struct Merge {
  std::string text;  // "left right"
  text::TokenId left, right, result;
};

// "left right": the first space that has a token on either side, which together
// make a third. nullopt: there is none.
std::optional<Merge> FindMerge(std::string joined, const VocabBuilder& tokens);

// The member "merges" of a tokenizer.json's model, best first: "left right", or
// ["left", "right"] in newer files. kCorrupt, quoting what is no merge.
Result<std::vector<Merge>> ReadMerges(const JsonFields& model,
                                      const VocabBuilder& tokens);

// That merges alone make of every word that is a token that token, so that it
// does not matter whether such words are taken whole. `path` for messages.
// kUnsupported: they do not, naming a token; also one whose bytes are no text,
// which nobody would ever meet. Encodes each token: some microseconds for each.
// Requires byte-level BPE.
Status CheckMergesMakeWords(const text::Tokenizer& tokenizer,
                            const std::string& path);

// vocab.json and merges.txt: byte-level BPE, as GPT-2 and OPT have it. The
// pre-tokenizer is not in them: `architecture` (GGUF's name) decides.
// kUnsupported: an architecture whose pre-tokenizer is not known; kCorrupt.
Result<VocabDraft> DraftOfMergesTxt(const NamedText& vocab,
                                    const NamedText& merges,
                                    const std::string& architecture,
                                    uint64_t num_rows);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_MERGES_H_
