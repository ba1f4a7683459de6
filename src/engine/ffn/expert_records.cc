#include "engine/ffn/expert_records.h"

#include "engine/ffn/sparse_ffn.h"
#include "engine/stream/expert_plan.h"

namespace thermocline::engine {

void ExpertRecords::Begin(size_t num_experts, size_t num_choices) {
  are_together_ = !parts_.reads_whole && num_choices <= kNumApart &&
                  num_experts <= parts_.stream->num_rooms();
  parts_.stream->BeginLayer(parts_.layer_idx, are_together_);
}

void ExpertRecords::AskForAll(size_t expert_idx) {
  StreamedStore& store = *parts_.stream->store(parts_.layer_idx, expert_idx);
  if (parts_.reads_whole) {
    store.BeginWhole();
  } else {
    store.Ask(nullptr, parts_.open_share);
  }
}

void ExpertRecords::AskForNamed(size_t expert_idx, size_t first_choice,
                                size_t num_choices) {
  const neuron::ActiveSets rows = sets(first_choice);
  const neuron::NeuronSet any = parts_.stream->any_choice(parts_.layer_idx);
  any.Clear();
  bool are_all = false;
  for (size_t i = 0; i < num_choices; ++i) {
    any.AddAllOf(rows.named(i));
    are_all = are_all || ComputesAll(rows.named(i), parts_.is_mask);
  }
  parts_.stream->store(parts_.layer_idx, expert_idx)
      ->Ask(are_all ? nullptr : &any, parts_.open_share);
}

neuron::ActiveSets ExpertRecords::sets(size_t first_choice) const {
  neuron::ActiveSets sets =
      parts_.stream->choices(parts_.layer_idx).From(first_choice);
  sets.is_recorded = parts_.is_recorded;
  return sets;
}

}  // namespace thermocline::engine
