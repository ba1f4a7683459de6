// What `train` and `prepare` have in common: flags, and the report.
#ifndef THERMOCLINE_CLI_PREPARE_COMMAND_FLAGS_H_
#define THERMOCLINE_CLI_PREPARE_COMMAND_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "model/model.h"
#include "training/corpus.h"
#include "training/find_options.h"
#include "training/findings.h"

namespace thermocline::cli {

struct FindFlags {
  ModelFlags model;
  std::string corpus;
  std::string output;
  SessionFlags session;
  std::optional<int64_t> max_tokens;
  float recall = 0.99f;
  float max_candidates = 1.5f;
  int64_t lookahead = 0;
  planner::Grouping grouping = planner::Grouping::kGreedy;
  int64_t seed = 0;
  int64_t num_steps = 800;
  bool reports_ahead = false;
};

// MODEL or -m with what belongs to it, --corpus, -o, -t, -c, --isa, -n,
// --recall, --max-candidates, --lookahead, --groups, --seed, --steps,
// --report-lookahead. `flags` outlives the parsing.
void AddFindFlags(CLI::App& app, const std::shared_ptr<FindFlags>& flags);

// The model and the text in chunks, opened for that work.
struct FindInputs {
  std::shared_ptr<const model::Model> model;
  training::Corpus corpus;
  training::FindOptions options;
};
// Refuses first an output that is one of the inputs, or of `more_inputs`, which
// the command reads besides, or cannot be written.
Result<FindInputs> OpenFindInputs(const FindFlags& flags,
                                  std::span<const std::string> more_inputs,
                                  ProgressLine& progress);

// If `error` is an interrupt that left a folder of work: where that is, whether
// anything is finished in it, and how to go on. If it is a full disk or the
// like, the same where something is finished.
void TellOfWork(const Error& error, const std::string& output);

// The tables and lines that tell what was found.
std::string FormatFindings(const training::Findings& findings, bool is_resumed);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_PREPARE_COMMAND_FLAGS_H_
