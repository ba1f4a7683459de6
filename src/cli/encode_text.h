// Texts to tokens. A text may be so long that this takes a while: an interrupt
// meanwhile ends the process, for nothing is lost yet.
#ifndef THERMOCLINE_CLI_ENCODE_TEXT_H_
#define THERMOCLINE_CLI_ENCODE_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "text/tokenizer.h"
#include "training/corpus.h"

namespace thermocline::cli {

// Tokenizer::Encode, with a warning where a BOS is put in front of a text that
// has one.
Result<std::vector<text::TokenId>> EncodeText(
    const text::Tokenizer& tokenizer, std::string_view text,
    const text::EncodeOptions& options);

// What a model gets to continue: special tokens that are written out count as
// such; with_special puts those around it that the vocabulary asks for (BOS),
// but no EOS behind it: the text has not ended.
Result<std::vector<text::TokenId>> EncodePrompt(
    const text::Tokenizer& tokenizer, std::string_view prompt,
    bool with_special);

// training::Corpus::Create.
Result<training::Corpus> EncodeCorpus(const model::Model& model,
                                      std::string_view text,
                                      const std::string& name,
                                      const training::CorpusOptions& options);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_ENCODE_TEXT_H_
