// What quantising a file will do to each of its tensors.
#ifndef THERMOCLINE_QUANTIZE_PLAN_H_
#define THERMOCLINE_QUANTIZE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/file_type.h"
#include "gguf/gguf.h"
#include "tensor/dtype.h"

namespace thermocline::quantize {

// A type for the tensors whose names hold a match of the pattern (PCRE2).
struct TypeOverride {
  std::string pattern;
  DType dtype;
};

struct QuantizeOptions {
  gguf::FileType type = gguf::FileType::kQ4_K_M;
  bool pure = false;                    // one type for all matrices
  bool leave_output = false;            // the head stays as it is
  bool allow_requantize = false;        // blocks may be quantised again
  std::optional<DType> output_type;     // of the head, tied or not
  std::optional<DType> embedding_type;  // of token_embd; counts above the other
  // Count above the mix, below the two above; the last that matches counts.
  std::vector<TypeOverride> overrides;
};

struct QuantizedTensor {
  const gguf::TensorInfo* source;  // of the file
  DType dtype;
  // Its rows do not divide into the blocks of the type it was meant to have.
  bool fell_back = false;
  uint64_t num_bytes = 0;  // when written
};

struct QuantizePlan {
  gguf::FileType type;
  std::vector<QuantizedTensor> tensors;  // in the file's order
};

// The plan for `file`, which it refers to. Types that the options name must be
// computable (CHECKed). Reads metadata only. kCorrupt: the metadata that the
// rules need is missing or absurd; kUnsupported: it is a split file, prepared
// or has no matrices, or a tensor to be changed has a type that cannot be read;
// kInvalidArgument: it is quantised already, a pattern that cannot be read, one
// that backtracks without end, or one that matches nothing.
Result<QuantizePlan> PlanQuantization(const gguf::File& file,
                                      const QuantizeOptions& options);

}  // namespace thermocline::quantize

#endif  // THERMOCLINE_QUANTIZE_PLAN_H_
