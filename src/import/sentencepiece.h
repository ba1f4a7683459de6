// tokenizer.model files of SentencePiece: a protocol buffer, read by hand.
#ifndef THERMOCLINE_IMPORT_SENTENCEPIECE_H_
#define THERMOCLINE_IMPORT_SENTENCEPIECE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "import/vocab_builder.h"
#include "text/vocab.h"

namespace thermocline::importer {

struct SentencePiece {
  std::string text;  // U+2581 for a space
  float score = 0.0f;
  text::TokenType type = text::TokenType::kNormal;
};

// What of the file counts here; absent fields have the format's defaults.
struct SentencePieceModel {
  std::vector<SentencePiece> pieces;  // by id
  int64_t model_type = 1;             // 1 unigram, 2 BPE, 3 word, 4 char
  bool treat_whitespace_as_suffix = false;
  int64_t unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;  // negative: none
  std::string normalizer;  // its name, if it changes text beyond white space
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// The two formats that go by the name tokenizer.model begin differently.
bool LooksLikeSentencePiece(std::string_view file);

// kCorrupt, naming `path` and the byte: not a message of this kind, cut off, a
// text that is not UTF-8, an unknown type of piece. Fields that are not known
// are skipped, as the format wants it.
Result<SentencePieceModel> ParseSentencePiece(std::string_view file,
                                              const std::string& path);

// kUnsupported: not a BPE model (its type is named), spaces written in another
// way; kCorrupt as VocabBuilder::Add, and special tokens out of range.
Result<VocabDraft> DraftOfSentencePiece(const SentencePieceModel& model,
                                        const std::string& path,
                                        uint64_t num_rows);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_SENTENCEPIECE_H_
