// Hugging Face folders to GGUF.
#ifndef THERMOCLINE_IMPORT_CONVERT_H_
#define THERMOCLINE_IMPORT_CONVERT_H_

#include <atomic>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace thermocline::importer {

struct ConvertOptions {
  // F32, F16, BF16, Q8_0 or Q4_0 for matrices whose rows divide into blocks;
  // norms and biases stay F32, rows that do not divide fall back to F16.
  DType dtype = DType::kF16;
  const std::atomic<bool>* cancel = nullptr;  // looked at between sources
  ProgressFn progress;
};

// Reads config.json, the tokenizer and safetensors (one file, or shards with an
// index) of `folder`, writes one GGUF v3 file: docs/formats/huggingface.md. A
// few MiB of one tensor, or of one expert, are in memory at a time, besides the
// tokenizer. All inputs are untrusted: kNotFound, kCorrupt, kUnsupported,
// kResourceExhausted (a file that is too large) name the file and the field;
// unknown architectures and pre-tokenizers are named. kInvalidArgument: another
// options.dtype. kIo. kCancelled: the flag was set; nothing is left behind.
Status ConvertHuggingFace(const std::string& folder, const std::string& output,
                          const ConvertOptions& options);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_CONVERT_H_
