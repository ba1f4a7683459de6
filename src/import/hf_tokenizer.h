// The tokenizer of a Hugging Face folder, whatever files it is in.
#ifndef THERMOCLINE_IMPORT_HF_TOKENIZER_H_
#define THERMOCLINE_IMPORT_HF_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "import/hf_chat_template.h"
#include "import/vocab_builder.h"
#include "text/vocab.h"

namespace thermocline::importer {

// What a tokenizer is made from. The vocabulary is the first that is there of:
// a tokenizer.model of SentencePiece, tokenizer.json, a tokenizer.model or
// qwen.tiktoken that is a tiktoken table, vocab.json with merges.txt.
struct TokenizerSources {
  std::string folder;        // for messages
  std::string architecture;  // GGUF's name: files that leave things unsaid
  std::optional<NamedText> tokenizer_model;
  std::optional<NamedText> tokenizer_json;
  std::optional<NamedText> tiktoken;
  std::optional<NamedText> vocab_json;
  std::optional<NamedText> merges_txt;
  std::optional<NamedText> added_tokens;        // added_tokens.json
  std::optional<NamedText> config;              // tokenizer_config.json
  std::optional<NamedText> special_tokens_map;  // special_tokens_map.json
  std::optional<NamedText> chat_template_json;
  std::optional<NamedText> chat_template_jinja;
  // Where the tokenizer's files name none: ids from the model's config.
  std::optional<int64_t> bos_id, pad_id;
  std::vector<int64_t> eos_ids;  // all that end a text, the main one first
  uint64_t num_rows = 0;         // of the embedding
};

struct HfTokenizer {
  text::Vocab vocab;  // num_rows tokens, checked by text::Tokenizer
  ChatTemplates chat_templates;
};

// kNotFound: no vocabulary; kCorrupt; kUnsupported: a tokenizer that is neither
// byte-level BPE nor SentencePiece's BPE, or has a step that is not known, or
// takes words whole where that matters and GGUF cannot say it, named. Ids
// without a token become unused tokens [PADn].
Result<HfTokenizer> ParseHfTokenizer(const TokenizerSources& sources);

// Reads the files that are there. The ids and num_rows are the caller's.
Result<TokenizerSources> ReadTokenizerFiles(const std::string& folder);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_TOKENIZER_H_
