// What `thermocline trace --stats` finds in a trace, and shows.
#ifndef THERMOCLINE_CLI_TRACE_REPORT_H_
#define THERMOCLINE_CLI_TRACE_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "neuron/dynamics.h"
#include "neuron/profile.h"
#include "neuron/trace.h"

namespace thermocline::cli {

// Of neurons that fire, or of experts that are used.
struct UnitFigures {
  neuron::Profile profile;
  std::vector<neuron::LayerDynamics> layers;  // [L]
  // [L] Jaccard indices of the hot units of texts, over pairs of texts.
  std::vector<neuron::Mean> texts;

  // Of all layers together, a tenth of theirs each.
  neuron::Recurrence TenthOfAll(size_t tenth) const;
};

// Texts that are compared (neuron::TextHeat): T of them.
struct TextOverlap {
  std::vector<std::string> names;  // [T] of sections, or "text 7"
  // [T][T] of the hot neurons of two, mean of the layers.
  std::vector<std::vector<std::optional<double>>> jaccard;
};

// Whom predictors named, so many layers early; candidates without a lookahead.
struct NamingFigures {
  std::optional<uint32_t> lookahead;
  std::vector<neuron::Naming> layers;  // [L]

  // Of the layers that were named anybody in.
  neuron::Naming total() const;
};

// Tokens as they follow each other, the first of the trace.
struct ActivitySeries {
  static constexpr size_t kMaxTokens = 512;

  size_t layer_idx = 0;
  std::vector<neuron::ActiveCounts> tokens;
};

// The figures of a trace.
struct TraceReport {
  std::string path;
  uint64_t num_bytes = 0;  // of the file
  neuron::TraceHeader header;
  neuron::TraceTotals totals;
  uint64_t num_generated = 0;  // of the tokens
  UnitFigures neurons;
  std::optional<UnitFigures> experts;
  TextOverlap texts;
  std::vector<NamingFigures> named;
  // Of neurons, in a few layers from the first to the last; and at which of
  // their tokens a text begins.
  std::vector<ActivitySeries> series;
  std::vector<size_t> series_begins;
};

// Reads all of a trace, twice. The errors of TraceReader; kUnsupported: more
// neurons or tokens than can be counted. Memory: some 16 bytes for each neuron
// of each layer, whatever the number of tokens.
Result<TraceReport> ReadTrace(const std::string& path,
                              const ProgressFn& progress);

// Tables for people, with a row per layer; one JSON object, described in
// docs/cli.md. End in a line end.
std::string FormatTrace(const TraceReport& report);
std::string FormatTraceJson(const TraceReport& report);

// A page for browsers that needs nothing else. The same trace gives the same
// bytes.
std::string FormatTraceHtml(const TraceReport& report);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TRACE_REPORT_H_
