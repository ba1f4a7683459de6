// Any text is a tokenizer.json (and a tokenizer_config.json, behind the first
// zero byte), or an error. The same text as vocab.json and merges.txt.
#include <cstddef>
#include <cstdint>
#include <string>

#include "import/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline::importer;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\0');
  const std::string rest =
      cut == std::string::npos ? std::string() : text.substr(cut + 1);
  TokenizerSources sources;
  sources.num_rows = 300;
  sources.bos_id = 1;
  sources.eos_ids = {2, 3, 4};
  sources.architecture = "opt";
  sources.tokenizer_json = {"tokenizer.json", text.substr(0, cut)};
  if (!rest.empty()) sources.config = {"tokenizer_config.json", rest};
  (void)ParseHfTokenizer(sources);

  TokenizerSources older;
  older.num_rows = 300;
  older.architecture = "opt";
  older.vocab_json = {"vocab.json", text.substr(0, cut)};
  older.merges_txt = {"merges.txt", rest};
  if (!rest.empty() && rest.front() == '{') {
    older.config = {"tokenizer_config.json", rest};
  }
  (void)ParseHfTokenizer(older);
  return 0;
}
