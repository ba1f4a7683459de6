// A vocabulary as a GGUF file's metadata.
#ifndef THERMOCLINE_MODEL_VOCAB_METADATA_H_
#define THERMOCLINE_MODEL_VOCAB_METADATA_H_

#include <optional>

#include "base/status.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "text/vocab.h"

namespace thermocline::model {

// With the defaults that the fields have when keys are absent.
// nullopt: the file says it has none. kCorrupt: arrays of different lengths or
// wrong types. kUnsupported: another tokenizer model, named. Special ids out of
// range are dropped with a warning. Works for any architecture.
Result<std::optional<text::Vocab>> ReadVocab(const gguf::File& file);

// Writes tokenizer.ggml.* for every field that is set. ReadVocab gives the
// same vocabulary back.
Status WriteVocab(const text::Vocab& vocab, gguf::Writer& writer);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_VOCAB_METADATA_H_
