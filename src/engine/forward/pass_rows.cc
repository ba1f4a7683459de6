#include "engine/forward/pass_rows.h"

#include "base/check.h"

namespace thermocline::engine {

PassRows::PassRows(size_t most_runs) {
  sequences_.reserve(most_runs);
  parts_.reserve(most_runs);
}

void PassRows::Lay(const Batch& batch, const IsTaken& is_taken) {
  TC_CHECK(batch.runs.size() <= sequences_.capacity());
  sequences_.clear();
  parts_.clear();
  size_t num_rows = 0;
  for (size_t i = 0; i < batch.runs.size(); ++i) {
    const BatchRun& run = batch.runs[i];
    TC_CHECK(i == 0 || run.phase >= batch.runs[i - 1].phase);
    SequenceRows rows = {.sequence = run.sequence,
                         .first_position = run.sequence->length(),
                         .num_rows = run.tokens.size()};
    const bool is_alone = run.phase == Phase::kPrompt && is_taken(rows);
    if (i == 0 || is_alone || parts_.back().is_taken ||
        run.phase != parts_.back().phase) {
      parts_.push_back(
          {.phase = run.phase, .is_taken = is_alone, .first = num_rows});
    }
    PhaseRows& part = parts_.back();
    const size_t first_run = i - part.runs.size();
    rows.first_row = part.count;
    sequences_.push_back(rows);
    part.runs = batch.runs.subspan(first_run, i + 1 - first_run);
    part.sequences = std::span(sequences_).subspan(first_run);
    part.count += rows.num_rows;
    num_rows += rows.num_rows;
  }
}

std::span<const SequenceRows> PassRows::generated() const {
  if (parts_.empty() || parts_.back().phase != Phase::kGenerate) return {};
  return parts_.back().sequences;
}

}  // namespace thermocline::engine
