// The tensors of an architecture, as the checkpoint and the model file name
// them.
#ifndef THERMOCLINE_IMPORT_TENSOR_LAYOUT_H_
#define THERMOCLINE_IMPORT_TENSOR_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace thermocline::importer {

// One tensor of the model file. Its role (model/tensor_roles.h) says which
// shape it has, whether the model needs it, can have it or has no such tensor,
// and whether it stacks those of all experts.
struct Part {
  std::string hf_name;    // of a stack: "{}" stands for the expert's number
  std::string gguf_name;  // behind "blk.N."
  // Row r of the file is row rows[r] of the source; empty: all, in order.
  std::vector<uint32_t> rows;
  bool is_required = false;  // although the role can do without
  // The file's elements are the source's and 1.
  bool adds_one = false;
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

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_TENSOR_LAYOUT_H_
