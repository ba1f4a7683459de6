// The memory that feed-forward blocks compute in.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_SCRATCH_H_
#define THERMOCLINE_ENGINE_FFN_FFN_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/carver.h"
#include "compute/rows.h"
#include "kernels/isa.h"
#include "model/config.h"
#include "neuron/active_sets.h"
#include "predictor/selector.h"

namespace thermocline::engine {

struct FfnShape {
  uint64_t num_rows = 1;  // B: rows of each matrix below
  int num_threads = 1;
  kernels::Isa isa = kernels::Isa::kScalar;
  bool is_sparse = false;    // some phase does not compute every neuron
  bool is_recorded = false;  // ActiveSets::is_recorded
};

// How rows are spread over experts (expert_ffn.h); nothing without them.
// E experts, U of them used by each row.
struct ExpertScratch {
  compute::Rows shares;           // [B, E] softmax of the router's logits
  compute::Rows weights;          // [B, U] of the chosen experts
  uint32_t* chosen = nullptr;     // [B, U]
  size_t* group_begin = nullptr;  // [E + 1] in `grouped`
  size_t* grouped = nullptr;      // [B * U] choices, sorted by expert
  compute::Rows in;               // [B, D] the rows of one expert
  compute::Rows out;              // [B, D]
  neuron::ActiveSets sets;        // [B] of one expert's F neurons
  compute::Rows gates;  // [B, U * F] FfnObservation::gate; if recorded
};

// What is computed where not every neuron is, or neuron by neuron
// (sparse_ffn.h). G = min(B, kernels::kListedTokens) rows go together.
struct SparseScratch {
  size_t num_neurons = 0;       // F
  uint32_t* all_ids = nullptr;  // [F of the widest] every neuron; 0, 1, ..
  uint32_t* ids = nullptr;      // [G, F] each row's candidates as a list
  uint32_t* fired = nullptr;    // [G, F] (neuron_ffn.h)
  size_t group = 0;             // G
  compute::Rows sums;           // [G * pieces, D] (neuron_ffn.h)
  // Where each thread works: NeuronFfn::WorkerBytes() for each. Far more than
  // stacks may have (ulimit -s).
  std::byte* workers = nullptr;
  // [2, WordsOf(F)] whose gate some row of a call computed, and who fired.
  uint64_t* union_words = nullptr;

  neuron::NeuronSet named_by_any() const { return {union_words, num_neurons}; }
  neuron::NeuronSet fired_for_any() const {
    return {union_words + neuron::WordsOf(num_neurons), num_neurons};
  }
};

// One layer's. Views of memory that all layers share: nothing is kept from
// layer to layer but all_ids.
struct FfnScratch {
  // [B, F]; no data if dense and without a gate, unless recorded: then it keeps
  // what the activation is applied to.
  compute::Rows gate;
  compute::Rows up;  // [B, F]
  ExpertScratch experts;
  SparseScratch sparse;
  predictor::SelectorScratch selector;  // its rows are gate and up
  // Where transposed_down.h transposes a part of a down matrix:
  // transposed_bytes per thread; none where no matrix is transposed, or the ISA
  // has no batches.
  std::byte* transposed = nullptr;
  size_t transposed_bytes = 0;
};

// [L], all in one place.
std::vector<FfnScratch> CarveFfn(const model::Config& config,
                                 const FfnShape& shape,
                                 compute::Carver& carver);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_SCRATCH_H_
