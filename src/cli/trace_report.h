// What `thermocline trace` records and shows.
#ifndef THERMOCLINE_CLI_TRACE_REPORT_H_
#define THERMOCLINE_CLI_TRACE_REPORT_H_

#include <cstdint>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "neuron/profile.h"
#include "neuron/trace.h"

namespace thermocline::cli {

// The figures of a trace.
struct TraceReport {
  std::string path;
  uint64_t num_bytes = 0;  // of the file
  neuron::TraceHeader header;
  neuron::TraceTotals totals;
  uint64_t num_generated = 0;  // of the tokens
  neuron::Profile profile;
};

// Reads all of a trace. The errors of TraceReader; kUnsupported: more neurons
// or tokens than a profile counts.
Result<TraceReport> ReadTrace(const std::string& path,
                              const ProgressFn& progress);

// Lines for people, with a row per layer; one JSON object, described in
// docs/cli.md. End in a line end.
std::string FormatTrace(const TraceReport& report);
std::string FormatTraceJson(const TraceReport& report);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TRACE_REPORT_H_
