// Any bytes are a SentencePiece model or an error, and what they are can be
// made a vocabulary of, or is refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "import/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline::importer;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto model = ParseSentencePiece(file, "tokenizer.model");
  if (model) (void)DraftOfSentencePiece(*model, "tokenizer.model", 300);
  return 0;
}
