// Every activation of one pass, carved out of one piece of memory.
#ifndef THERMOCLINE_ENGINE_SCRATCH_H_
#define THERMOCLINE_ENGINE_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compute/carver.h"
#include "compute/product_scratch.h"
#include "compute/rows.h"
#include "engine/attention/attention_scratch.h"
#include "engine/ffn/ffn_scratch.h"
#include "kernels/isa.h"
#include "model/config.h"
#include "neuron/active_sets.h"

namespace thermocline::engine {

struct ScratchShape {
  int64_t batch = 1;    // B: rows of a pass, >= 1
  int64_t context = 1;  // positions that attention reads, >= 1
  int num_threads = 1;  // >= 1
  kernels::Isa isa = kernels::Isa::kScalar;  // whose products are prepared for
  bool is_sparse = false;    // some phase does not compute every neuron
  bool is_observed = false;  // room for what an observer is told
};

// Angles of a pass's rows by one rope.
struct RopeRows {
  compute::Rows cos;  // [B, pairs]
  compute::Rows sin;  // [B, pairs]
};

// What the layer loop hands from step to step. Views only; rows and arrays
// start at multiples of 64 bytes. The activations of a sub-layer, which its
// executors keep in `attention` and `ffn`, are not kept for the next: those of
// all layers lie in one place, as large as the largest needs.
struct Scratch {
  compute::Rows residual;       // [B, D] the stream that layers add to
  compute::Rows normed;         // [B, D] input of a sub-layer
  compute::Rows delta;          // [B, D] output of a sub-layer
  std::vector<RopeRows> ropes;  // of model::Config::ropes
  std::vector<AttentionScratch> attention;  // [L]
  std::vector<FfnScratch> ffn;              // [L]
  compute::ProductScratch products;
  // [L], in one place; in two by turns if predictors speak of the next layer.
  // Without words where nobody needs them.
  std::vector<neuron::ActiveSets> sets;
  // Observed: [2, N of the largest] the sets of one row as lists, and [B, D]
  // what was normed, where it changes before the FFN runs.
  uint32_t* listed = nullptr;
  compute::Rows stream;

  // None behind the last layer.
  neuron::ActiveSets sets_of(size_t layer_idx) const {
    return layer_idx < sets.size() ? sets[layer_idx] : neuron::ActiveSets();
  }
};

// Bytes that MakeScratch needs. kResourceExhausted: more than 64 bits hold.
Result<uint64_t> ScratchBytes(const model::Config& config,
                              const ScratchShape& shape);

// Views into `base`, ScratchBytes() bytes, 64-byte aligned. Requires that
// ScratchBytes succeeds for the same arguments.
Scratch MakeScratch(const model::Config& config, const ScratchShape& shape,
                    std::byte* base);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_SCRATCH_H_
