// The trace that a run writes of itself.
#ifndef THERMOCLINE_CLI_RUN_TRACE_H_
#define THERMOCLINE_CLI_RUN_TRACE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/trace_recorder.h"
#include "engine/session.h"
#include "neuron/trace.h"

namespace thermocline::cli {

// From a session's observer to a file: who fired, whose gates were read, and of
// a model of which a part stays in its file with what its policy began, so that
// `simulate --deterministic` can say what became of it.
// Usage: observer, the session, Begin, one prompt and what is generated from
// it, Finish.
class RunTrace {
 public:
  // Of the rows of a batch, which wait until all layers have seen them: bytes.
  static uint64_t NumBytes(const model::Config& config, int64_t batch);

  // Of which nothing is noted before Begin. Not to be called after *this is
  // gone.
  engine::FfnObserver observer();

  // `options` are the session's, which is new, `num_prompt` the tokens of its
  // prompt. kUnsupported: what prompts tell this session's policy depends on
  // more than a trace says; errors of TraceHeaderOf and TraceWriter::Create.
  Status Begin(const std::string& path, const engine::Session& session,
               const engine::SessionOptions& options, size_t num_prompt);
  // Whether all could be noted so far.
  bool is_well() const {
    return !recorder_.has_value() || recorder_->status().has_value();
  }
  // Writes the file's end. What is in it, and what the policy did of generated
  // tokens, if there is one: a line.
  Result<std::string> Finish(const engine::Session& session);

 private:
  std::string path_;
  neuron::TraceHeader header_;
  std::unique_ptr<neuron::TraceWriter> writer_;
  std::optional<TraceRecorder> recorder_;
};

// "3202 of 4000 hits, 48 admitted, 19 moved, 6 wasted": of generated tokens, as
// a run counts and as a simulation of its trace does.
std::string DescribePolicyCounts(uint64_t num_hits, uint64_t num_wanted,
                                 uint64_t num_admissions, uint64_t num_moves,
                                 uint64_t num_wasted);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_RUN_TRACE_H_
