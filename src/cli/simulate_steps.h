// What the tokens of a trace are to a policy that is simulated over them.
#ifndef THERMOCLINE_CLI_SIMULATE_STEPS_H_
#define THERMOCLINE_CLI_SIMULATE_STEPS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/status.h"
#include "cli/simulate_units.h"
#include "neuron/trace.h"
#include "residency/replay.h"

namespace thermocline::cli {

// Each token is a pass. Or `as_run`, of a trace that a run wrote, what it was
// to that run's policy: those that were generated are passes, and prompts as
// TraceRun::lessons says; of rows those that are too early are left out.
class TokenSteps {
 public:
  // Both outlive it.
  TokenSteps(neuron::TraceReader* reader, const SimulatedUnits* units,
             bool as_run);

  // residency::NextToken. The reader's errors.
  Result<std::optional<residency::Step>> Next(
      std::vector<std::vector<uint32_t>>& sets);

  uint64_t num_read() const { return num_read_; }  // tokens of the trace

 private:
  // The next token, unless there is one already.
  Status Read();
  // A pass of a prompt, to `waiting_`.
  Status ReadPass();
  void AddRow();

  neuron::TraceReader& reader_;
  const SimulatedUnits& units_;
  std::optional<neuron::TraceLessons> lessons_;  // of a run
  neuron::TraceToken token_;
  neuron::TraceSets fired_;
  bool has_token_ = false;
  std::deque<std::vector<std::vector<uint32_t>>> waiting_;  // steps of a pass
  uint64_t num_read_ = 0;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_SIMULATE_STEPS_H_
