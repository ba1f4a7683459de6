// Tokenizers whose file is a tiktoken table: Llama 3's original tokenizer.model
// and qwen.tiktoken.
#ifndef THERMOCLINE_IMPORT_HF_TIKTOKEN_H_
#define THERMOCLINE_IMPORT_HF_TIKTOKEN_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "import/vocab_builder.h"

namespace thermocline::importer {

// The special tokens, which are not in the table, and the pre-tokenizer follow
// from `architecture` (GGUF's name). kUnsupported: one whose are not known;
// kCorrupt: as text::ParseTiktoken, or more tokens than rows.
Result<VocabDraft> DraftOfTiktoken(const NamedText& table,
                                   const std::string& architecture,
                                   uint64_t num_rows);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_TIKTOKEN_H_
