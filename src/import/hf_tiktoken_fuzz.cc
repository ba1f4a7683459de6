// Any text is a tiktoken table or an error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "import/hf_tiktoken.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* architecture : {"llama", "qwen2"}) {
    (void)thermocline::importer::DraftOfTiktoken({"tokenizer.model", text},
                                                 architecture, 600);
  }
  return 0;
}
