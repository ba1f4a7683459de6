#include "engine/forward/ffn_report.h"

#include "neuron/active_sets.h"

namespace thermocline::engine {
namespace {

// Row `row` of the pass, which was the FFN's row `row_of_call`.
void ReportRow(const FfnReport& report, size_t row, size_t row_of_call,
               int64_t position) {
  const Scratch& scratch = *report.scratch;
  const neuron::ActiveSets sets = scratch.sets_of(report.layer_idx);
  const auto list = [](const neuron::NeuronSet& set, uint32_t* ids) {
    size_t count = 0;
    set.ForEachIn(0, set.num_neurons, [&](size_t neuron) {
      ids[count++] = static_cast<uint32_t>(neuron);
    });
    return std::span<const uint32_t>(ids, count);
  };
  const compute::Rows& stream =
      scratch.stream.data ? scratch.stream : scratch.residual;
  FfnObservation seen = {
      .layer_idx = report.layer_idx,
      .position = position,
      .input = scratch.normed.span(row),
      .stream = stream.span(row),
      .candidates = list(sets.named(row), scratch.listed),
      .fired = list(sets.fired(row), scratch.listed + sets.num_neurons),
  };
  if (report.gate.data) seen.gate = report.gate.span(row_of_call);
  if (const size_t num_used = report.spec->num_experts_used; num_used > 0) {
    seen.experts = {
        scratch.ffn[report.layer_idx].experts.chosen + row_of_call * num_used,
        num_used};
  }
  (*report.observer)(seen);
}

}  // namespace

void ReportFfn(const FfnReport& report) {
  for (const SequenceRows& run : report.sequences) {
    for (size_t t = 0; t < run.num_rows; ++t) {
      ReportRow(report, report.first_row + run.first_row + t, run.first_row + t,
                run.first_position + static_cast<int64_t>(t));
    }
  }
}

}  // namespace thermocline::engine
