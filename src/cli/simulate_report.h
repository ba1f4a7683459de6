// What `thermocline simulate` finds and shows.
#ifndef THERMOCLINE_CLI_SIMULATE_REPORT_H_
#define THERMOCLINE_CLI_SIMULATE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "cli/simulate_rates.h"
#include "cli/simulate_units.h"
#include "neuron/trace.h"
#include "residency/compare.h"

namespace thermocline::cli {

struct SimulateOptions {
  std::string trace_path;
  std::optional<std::string> counts_path;  // a profile: who is resident first
  std::vector<std::string> policies;       // specs, and bounds
  // Room: of all units; if there is none, shares of each layer; without any
  // that of the run that wrote the trace, or some usual shares.
  std::vector<uint64_t> tier_bytes;
  std::vector<double> shares;
  UnitOptions units;
  std::optional<std::string> machine_path;
  std::optional<residency::Misses> misses;
  // Absent: none where misses are read, what the window takes where they are
  // computed.
  std::optional<uint64_t> move_bytes_per_token;
  uint64_t dense_bytes = 0;  // that a token reads besides
  // As `run --ram --deterministic` decides: moves and what runs waited for. Of
  // a trace that a run wrote also what prompts tell, and without others its
  // units, its room and its shares.
  bool as_deterministic_run = false;
};

// A policy with some room for units of a kind.
struct SimulatedCase {
  std::string policy;
  size_t units_idx = 0;
  double share = 0.0;  // of all units, in bytes if they are known
  std::optional<uint64_t> tier_bytes;  // if bytes were asked for
  uint64_t moves_per_token = 0;
  residency::Replay replay;
};

struct SimulateReport {
  SimulateOptions options;
  neuron::TraceHeader header;
  neuron::TraceTotals totals;
  TierRates rates;
  std::vector<SimulatedUnits> units;
  std::vector<SimulatedCase> cases;  // units by units, room by room
  // What is counted is the generated tokens of the run that wrote the trace,
  // which also says who was resident first unless options.counts_path does.
  bool is_of_run = false;
};

// What a case comes to. Bytes and seconds where the trace says how large units
// are.
struct CaseFigures {
  double hit_share = 0.0;  // of the bytes that were used
  // Hits as a share of Belady's with the same room, if that was run and has
  // any.
  std::optional<double> of_belady;
  std::optional<double> moved_bytes;   // of all tokens, admissions too
  std::optional<double> wasted_bytes;  // of them, that left unused
  double idle_share = 0.0;  // of what was moved, members that were not used
  std::optional<double> token_seconds, token_seconds_p99;
};
CaseFigures FiguresOf(const SimulateReport& report, size_t case_idx);

// Of all tokens that are counted.
double PerToken(double count, const SimulatedCase& one);

// "1.50 MiB" of sums that a trace's numbers may make larger than any memory.
std::string BytesText(double bytes);

// Runs all policies with all rooms and units over a trace: a reading for each
// room. The errors of TraceReader, model::ReadProfile, DivideTrace, RatesOf and
// ReplayCases; kInvalidArgument: a profile of another model, or bytes of a
// trace that does not know them; kUnsupported: too many units for so many
// policies.
Result<SimulateReport> Simulate(const SimulateOptions& options,
                                const ProgressFn& progress);

// Some lines for people and a Markdown table with a row per case; one JSON
// object, described in docs/cli.md; a page of figures. End in a line end.
std::string FormatSimulation(const SimulateReport& report);
std::string FormatSimulationJson(const SimulateReport& report);
std::string FormatSimulationPage(const SimulateReport& report);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_SIMULATE_REPORT_H_
