#include "cli/encode_text.h"

#include "base/log.h"
#include "base/quote.h"
#include "cli/signals.h"

namespace thermocline::cli {

Result<std::vector<text::TokenId>> EncodeText(
    const text::Tokenizer& tokenizer, std::string_view text,
    const text::EncodeOptions& options) {
  ExitOnInterrupt exit_on_interrupt;
  TC_ASSIGN_OR_RETURN(std::vector<text::TokenId> tokens,
                      tokenizer.Encode(text, options));
  // As in texts that were copied from where every token is written out.
  const auto bos = tokenizer.vocab().added_bos();
  if (options.add_special && bos && tokens.size() > 1 && tokens[0] == *bos &&
      tokens[1] == *bos) {
    LogWarning(
        "the text begins with {}, which the vocabulary puts in front of texts "
        "itself: the model reads two of them; leave one out (--no-bos)",
        Quote(tokenizer.Piece(*bos, /*show_special=*/true)));
  }
  return tokens;
}

Result<std::vector<text::TokenId>> EncodePrompt(
    const text::Tokenizer& tokenizer, std::string_view prompt,
    bool with_special) {
  TC_ASSIGN_OR_RETURN(
      std::vector<text::TokenId> tokens,
      EncodeText(tokenizer, prompt,
                 {.add_special = with_special, .parse_special = true}));
  const text::Vocab& vocab = tokenizer.vocab();
  if (with_special && vocab.add_eos && !tokens.empty() &&
      tokens.back() == vocab.eos) {
    tokens.pop_back();
  }
  return tokens;
}

Result<training::Corpus> EncodeCorpus(const model::Model& model,
                                      std::string_view text,
                                      const std::string& name,
                                      const training::CorpusOptions& options) {
  ExitOnInterrupt exit_on_interrupt;
  return training::Corpus::Create(model, text, name, options);
}

}  // namespace thermocline::cli
