// From what a session observes to a trace.
#ifndef THERMOCLINE_CLI_TRACE_RECORDER_H_
#define THERMOCLINE_CLI_TRACE_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/ffn/predictor_probe.h"
#include "model/model.h"
#include "neuron/trace.h"

namespace thermocline::cli {

// Of a trace of the model, of all positions and no sets but of those that fire
// and of experts. kUnsupported: layers of unlike widths, or more neurons than a
// trace holds.
Result<neuron::TraceHeader> TraceHeaderOf(const model::Model& model);

// Hands what a session observes to a writer: batch by batch, in each layer by
// layer; with what its predictors would name, where the trace holds that.
class TraceRecorder {
 public:
  // All of it outlives the recorder. `probe`: null where the header promises
  // nobody named early; candidates are then those of the session itself.
  // `batch`: positions of a prompt that the session computes in one pass.
  TraceRecorder(neuron::TraceWriter* writer, const neuron::TraceHeader& header,
                engine::PredictorProbe* probe, int64_t batch);

  // The next token is the first of a prompt of so many, which people know as
  // `section`: longer ones are cut.
  void BeginPrompt(size_t num_tokens, const std::string& section);

  void See(const engine::FfnObservation& seen);

  // After the last pass of a prompt.
  void Flush();
  // Once it is an error, nothing more is recorded.
  const Status& status() const { return status_; }

 private:
  void BeginToken(int64_t position);
  Status Record(const engine::FfnObservation& seen);
  Status AskCandidates(const engine::FfnObservation& seen);
  Status AskAhead(const engine::FfnObservation& seen);

  neuron::TraceWriter* writer_;
  const neuron::TraceHeader& header_;
  engine::PredictorProbe* probe_;
  int64_t batch_;
  int64_t num_prompt_ = 0;
  std::string section_;
  bool begins_ = true;
  std::optional<size_t> previous_layer_;
  std::vector<uint32_t> experts_;
  Status status_;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TRACE_RECORDER_H_
