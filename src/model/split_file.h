// Split files: what other engines found out about a model's neurons, kept
// beside the model. Untrusted input. Byte by byte: docs/formats/kairox.md and
// docs/formats/powerinfer.md.
#ifndef THERMOCLINE_MODEL_SPLIT_FILE_H_
#define THERMOCLINE_MODEL_SPLIT_FILE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"

namespace thermocline::model {

// An order in which neurons that fire together stand together (KAIROX).
struct NeuronOrder {
  size_t group_size = 0;       // neurons per group; divides F
  std::vector<float> pattern;  // [L] share of a cache for each layer; sum 1
  // [L][F]: layers[l][place] is the neuron at that place; a permutation.
  std::vector<std::vector<uint32_t>> layers;
};

// The neurons that PowerInfer's solver put on a GPU.
struct HotNeurons {
  uint64_t vram_bytes = 0;  // the budget that it had, not what they take
  std::vector<std::vector<uint32_t>> layers;  // [L], ascending neurons
};

// One of the two.
struct Split {
  std::optional<NeuronOrder> order;
  std::optional<HotNeurons> hot;
};

// Whether a file is one of these, by its keys: not a model.
bool IsSplitFile(const gguf::File& file);

// Reads a split file for a model of this description. kUnsupported: not a split
// file, or a model whose layers differ in F. kCorrupt: its sizes are not the
// model's (a split of another model), or its content contradicts itself.
// Messages name the file and the key or tensor.
Result<Split> ReadSplit(const gguf::File& file, const Config& config);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_SPLIT_FILE_H_
