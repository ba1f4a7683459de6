// What of a model's file an expert is, and where it lies in a slot.
#ifndef THERMOCLINE_ENGINE_STREAM_EXPERT_BLOCKS_H_
#define THERMOCLINE_ENGINE_STREAM_EXPERT_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/stream/block_layout.h"
#include "engine/stream/stream_options.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"
#include "neuron/record.h"
#include "storage/block_reader.h"
#include "tensor/tensor_view.h"

namespace thermocline::engine {

struct ExpertPart {
  std::string tensor;   // that it is a slice of, or all of
  gguf::FileSpan span;  // its own
  // The matrix that it is; null: records.
  TensorView model::FfnMatrices::* matrix = nullptr;
};

// Slices of the stacked tensors, whole tensors of old files that have one for
// each expert, or records, with gates beside them if they are a matrix.
std::vector<ExpertPart> ExpertPartsOf(const gguf::File& file,
                                      const model::Config& config,
                                      size_t layer_idx, size_t expert_idx);

struct ExpertBlock {
  std::vector<TensorView model::FfnMatrices::*> matrices;  // of the parts
  BlockLayout layout;
};

// file_bytes: of each shard.
ExpertBlock ExpertBlockOf(const std::vector<ExpertPart>& parts,
                          std::span<const uint64_t> file_bytes);

struct ExpertLayer {
  uint32_t first_unit = 0;          // experts of the layers before
  std::vector<ExpertBlock> blocks;  // [E]
  const neuron::RecordLayout* records = nullptr;  // null: matrices
  size_t num_experts() const { return blocks.size(); }
};
// [L]; keeps pointers to config.records.
std::vector<ExpertLayer> LayExperts(const gguf::File& file,
                                    const model::Config& config,
                                    std::span<const uint64_t> file_bytes);

// Points matrices, whose shapes are there, to where a block's parts lie.
// layout: of its records, if there are any.
void PlaceExpert(const ExpertBlock& block, const neuron::RecordLayout* layout,
                 const std::byte* slot, model::FfnMatrices& matrices);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_EXPERT_BLOCKS_H_
