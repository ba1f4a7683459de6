// The vocabulary in a GGUF file's metadata, with the defaults that the field
// has when keys are absent.
#ifndef THERMOCLINE_MODEL_VOCAB_READER_H_
#define THERMOCLINE_MODEL_VOCAB_READER_H_

#include <optional>

#include "base/status.h"
#include "gguf/gguf.h"
#include "text/vocab.h"

namespace thermocline::model {

// nullopt: the file says it has none. kCorrupt: arrays of different lengths or
// wrong types. kUnsupported: another tokenizer model, named. Special ids out of
// range are dropped with a warning. Works for any architecture.
Result<std::optional<text::Vocab>> ReadVocab(const gguf::File& file);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_VOCAB_READER_H_
