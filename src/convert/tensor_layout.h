// The tensors of an architecture, as the checkpoint and the model file name
// them.
#ifndef THERMOCLINE_CONVERT_TENSOR_LAYOUT_H_
#define THERMOCLINE_CONVERT_TENSOR_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace thermocline::convert {

enum class Presence { kRequired, kOptional };
enum class Storage { kAsChosen, kF32 };

// One tensor of the model file. Vectors are F32 in any case.
struct Part {
  std::string hf_name;  // with experts: "{}" stands for the expert's number
  std::string gguf_name;
  std::vector<uint64_t> shape;  // of the source, outermost first
  Presence presence = Presence::kRequired;
  // Row r of the file is row rows[r] of the source; empty: all, in order.
  std::vector<uint32_t> rows;
  // Sources stacked in one tensor of one more dimension; 0: one source.
  int64_t num_experts = 0;
  Storage storage = Storage::kAsChosen;
};

struct Layout {
  // What every name but the head's may begin with; checkpoints of the bare
  // model leave the outer parts out.
  std::vector<std::string> prefixes;
  std::string layer_prefix;  // "layers.{}.": {} is the layer
  std::string embedding;     // [V, D], both sides' first tensor
  std::vector<Part> inputs;  // besides the embedding
  std::vector<Part> layer;   // of each layer
  std::vector<Part> outputs;
};

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_TENSOR_LAYOUT_H_
