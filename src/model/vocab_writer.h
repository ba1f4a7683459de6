// The reverse of vocab_reader.h: a vocabulary as GGUF metadata.
#ifndef THERMOCLINE_MODEL_VOCAB_WRITER_H_
#define THERMOCLINE_MODEL_VOCAB_WRITER_H_

#include "base/status.h"
#include "gguf/writer.h"
#include "text/vocab.h"

namespace thermocline::model {

// Writes tokenizer.ggml.* for every field that is set. ReadVocab gives the
// same vocabulary back.
Status WriteVocab(const text::Vocab& vocab, gguf::Writer& writer);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_VOCAB_WRITER_H_
