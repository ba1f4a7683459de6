// The experts of a layer whose neurons' records stay in the file: who asks for
// what of them, and when.
#ifndef THERMOCLINE_ENGINE_FFN_EXPERT_RECORDS_H_
#define THERMOCLINE_ENGINE_FFN_EXPERT_RECORDS_H_

#include <cstddef>
#include <cstdint>

#include "engine/stream/record_stream.h"
#include "neuron/active_sets.h"

namespace thermocline::engine {

// Each expert is a run of its own store. So that the device has something to
// read meanwhile, experts are asked for before their runs: where there are
// rooms for all, all at once, with the candidates that predictors named, or
// all neurons where none do, of which gates may come first; else the next one
// while one runs. Of the next layer nothing is guessed: whom its predictors
// name is not known before its router has chosen.
// Threads  one caller.
class ExpertRecords {
 public:
  struct Parts {
    RecordStream* stream = nullptr;  // outlives it
    size_t layer_idx = 0;
    bool has_candidates = false;  // else all neurons are
    bool is_mask = false;         // SparseFfnParts
    bool is_recorded = false;     // ActiveSets
    bool reads_whole = false;     // experts are computed as matrices
    double open_share = 1.0;      // CutLists
  };
  explicit ExpertRecords(const Parts& parts) : parts_(parts) {}

  bool has_candidates() const { return parts_.has_candidates; }
  bool are_together() const { return are_together_; }

  // num_experts are used in num_choices choices of rows.
  void Begin(size_t num_experts, size_t num_choices);
  // All neurons of one.
  void AskForAll(size_t expert_idx);
  // Those that are named in the sets of its choices, which are the layer's
  // first_choice and on. Experts are together.
  void AskForNamed(size_t expert_idx, size_t first_choice, size_t num_choices);
  void End() { parts_.stream->EndLayer(parts_.layer_idx); }

  // Of the choices of all experts that are together, from one on.
  neuron::ActiveSets sets(size_t first_choice) const;

 private:
  Parts parts_;
  bool are_together_ = false;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_EXPERT_RECORDS_H_
