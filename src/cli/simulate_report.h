// What `thermocline simulate` finds and shows.
#ifndef THERMOCLINE_CLI_SIMULATE_REPORT_H_
#define THERMOCLINE_CLI_SIMULATE_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "neuron/trace.h"
#include "residency/compare.h"

namespace thermocline::cli {

struct SimulateOptions {
  std::string trace_path;
  std::optional<std::string> counts_path;  // a profile: who is resident first
  std::vector<std::string> policies;       // and bounds
  std::vector<double> shares;              // of each layer's neurons
};

struct SimulateReport {
  SimulateOptions options;
  neuron::TraceHeader header;
  neuron::TraceTotals totals;
  std::vector<residency::Case> cases;  // policies at a share, share by share
  std::vector<residency::Replay> replays;  // of each case
};

// Runs all policies at all shares over one reading of a trace. The errors of
// TraceReader, model::ReadProfile and ReplayCases; kInvalidArgument: a profile
// of another model; kUnsupported: too many neurons for so many cases.
Result<SimulateReport> Simulate(const SimulateOptions& options,
                                const ProgressFn& progress);

// Two lines for people and a Markdown table with a row per case; one JSON
// object, described in docs/cli.md. End in a line end.
std::string FormatSimulation(const SimulateReport& report);
std::string FormatSimulationJson(const SimulateReport& report);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_SIMULATE_REPORT_H_
