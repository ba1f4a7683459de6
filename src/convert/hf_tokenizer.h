// tokenizer.json and tokenizer_config.json: byte-level BPE vocabularies.
#ifndef THERMOCLINE_CONVERT_HF_TOKENIZER_H_
#define THERMOCLINE_CONVERT_HF_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/vocab.h"

namespace thermocline::convert {

// A file's text and its name for messages.
struct NamedText {
  std::string path;
  std::string text;
};

// What a tokenizer is made from.
struct TokenizerSources {
  NamedText tokenizer;              // tokenizer.json
  std::optional<NamedText> config;  // tokenizer_config.json
  // Where the tokenizer's files name none: ids from the model's config.
  std::optional<int64_t> bos_id, eos_id;
  uint64_t num_rows = 0;  // of the embedding
};

struct HfTokenizer {
  text::Vocab vocab;  // num_rows tokens, checked by text::Tokenizer
  // Jinja templates by name; "default" first if it is there.
  std::vector<std::pair<std::string, std::string>> chat_templates;
};

// kCorrupt; kUnsupported: not byte-level BPE, or with a step in it that is not
// known, named. Ids without a token become unused tokens [PADn].
Result<HfTokenizer> ParseHfTokenizer(const TokenizerSources& sources);

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_HF_TOKENIZER_H_
