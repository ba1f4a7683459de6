// Which tensor of a model gets which type: llama.cpp's rules, which made the
// files that people have. Pure logic over names and counts; docs/formats/
// quantised-files.md has them as tables.
#ifndef THERMOCLINE_QUANTIZE_RULES_H_
#define THERMOCLINE_QUANTIZE_RULES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "gguf/file_type.h"
#include "gguf/gguf.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace thermocline::quantize {

// What the rules ask about a model.
struct QuantizedModel {
  std::string architecture;
  gguf::Container container = gguf::Container::kGguf;
  size_t num_layers = 0;
  size_t num_experts = 0;          // 0: dense
  bool has_70b_attention = false;  // small attn_v matrices, which get more bits
  bool has_output = false;         // else the embedding is the head too
};

// Whether a tensor is a matrix that is quantised at all. Norms, biases, expert
// routers, learned positions and the small matrices of other architectures
// stay as they are.
bool IsQuantisable(std::string_view name, const Shape& shape);

// Whether a tensor is the head: it makes the logits.
bool IsHead(const QuantizedModel& model, std::string_view name);

// The type of a quantisable tensor in files of a type, whatever its rows.
DType TypeInMix(const QuantizedModel& model, gguf::FileType type,
                std::string_view name);

// The type nearest to `dtype` whose blocks rows of this length divide into:
// `dtype` itself, a block type of 32, or F16.
DType FittingType(DType dtype, uint64_t row_elems);

}  // namespace thermocline::quantize

#endif  // THERMOCLINE_QUANTIZE_RULES_H_
