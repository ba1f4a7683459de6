#include "cli/encode_text.h"

#include "cli/signals.h"

namespace thermocline::cli {

Result<std::vector<text::TokenId>> EncodeText(
    const text::Tokenizer& tokenizer, std::string_view text,
    const text::EncodeOptions& options) {
  ExitOnInterrupt exit_on_interrupt;
  return tokenizer.Encode(text, options);
}

Result<training::Corpus> EncodeCorpus(const model::Model& model,
                                      std::string_view text,
                                      const std::string& name,
                                      const training::CorpusOptions& options) {
  ExitOnInterrupt exit_on_interrupt;
  return training::Corpus::Create(model, text, name, options);
}

}  // namespace thermocline::cli
