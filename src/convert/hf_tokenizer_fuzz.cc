// Any text is a tokenizer.json (and a tokenizer_config.json, behind the first
// zero byte), or an error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "convert/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using thermocline::convert::ParseHfTokenizer;
  using thermocline::convert::TokenizerSources;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\0');
  TokenizerSources sources;
  sources.num_rows = 300;
  sources.bos_id = 1;
  sources.tokenizer = {"tokenizer.json", text.substr(0, cut)};
  if (cut != std::string::npos) {
    sources.config = {"tokenizer_config.json", text.substr(cut + 1)};
  }
  (void)ParseHfTokenizer(sources);
  return 0;
}
