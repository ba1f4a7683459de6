// How the rows of a pass lie: part by part, each computed in one way.
#ifndef THERMOCLINE_ENGINE_FORWARD_PASS_ROWS_H_
#define THERMOCLINE_ENGINE_FORWARD_PASS_ROWS_H_

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "engine/attention/attention_executor.h"
#include "engine/batch.h"

namespace thermocline::engine {

// Rows of one phase, one behind the other, among those of a pass: all that are
// computed in the same way, or of a prompt that PromptLayers takes its own.
struct PhaseRows {
  Phase phase = Phase::kPrompt;
  bool is_taken = false;
  size_t first = 0;
  size_t count = 0;
  std::span<const BatchRun> runs;
  std::span<const SequenceRows> sequences;  // their rows count from `first`
};

// Of the pass at hand; allocates nothing after construction.
class PassRows {
 public:
  // Whether a run of a prompt is computed by somebody else.
  using IsTaken = std::function<bool(const SequenceRows& run)>;

  // most_runs: of a pass.
  explicit PassRows(size_t most_runs);

  // Requires prompts first. (CHECKed)
  void Lay(const Batch& batch, const IsTaken& is_taken);

  std::span<PhaseRows> parts() { return parts_; }
  // Those of generated rows.
  std::span<const SequenceRows> generated() const;

 private:
  std::vector<SequenceRows> sequences_;
  std::vector<PhaseRows> parts_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_PASS_ROWS_H_
