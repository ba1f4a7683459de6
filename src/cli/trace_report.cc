#include "cli/trace_report.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/units.h"
#include "cli/profile_report.h"

namespace thermocline::cli {
namespace {

using neuron::kHeatTenths;
using neuron::kMaxOffset;
using neuron::LayerDynamics;

std::string_view NameOf(neuron::TracePositions positions) {
  return positions == neuron::TracePositions::kGenerated ? "generated" : "all";
}

// Of a trace with tokens.
double BytesPerToken(const TraceReport& report) {
  return static_cast<double>(report.num_bytes) /
         static_cast<double>(report.totals.num_tokens);
}

std::string PercentOr(std::optional<double> share) {
  return share ? fmt::format("{:.2f}", 100.0 * *share) : "-";
}

// How what fires changes, layer by layer.
std::string DynamicsTable(const UnitFigures& figures) {
  std::string out =
      "layer  jaccard %  with hot %  texts %  hot/token    +/-  cold/token    "
      "+/-    most\n";
  for (size_t l = 0; l < figures.layers.size(); ++l) {
    const LayerDynamics& layer = figures.layers[l];
    out += fmt::format(
        "{:>5}  {:>9}  {:>10}  {:>7}  {:>9.1f}  {:>5.1f}  {:>10.1f}  {:>5.1f}  "
        "{:>6}\n",
        l, PercentOr(layer.jaccard.value()),
        PercentOr(layer.jaccard_with_hot.value()),
        PercentOr(figures.texts[l].value()), layer.hot.mean(),
        layer.hot.deviation(), layer.cold.mean(), layer.cold.deviation(),
        layer.cold.most);
  }
  return out;
}

std::string RecurrenceRow(const std::string& name,
                          const neuron::Recurrence& tenth) {
  std::string row = fmt::format("{:>5}", name);
  for (size_t d = 1; d <= kMaxOffset; ++d) {
    row += fmt::format("  {:>6}", PercentOr(tenth.at(d)));
  }
  return row + fmt::format("  {:>9}\n", PercentOr(tenth.by_chance()));
}

std::string RecurrenceTable(const UnitFigures& figures) {
  std::string out = "tenth";
  for (size_t d = 1; d <= kMaxOffset; ++d) out += fmt::format("  {:>6}", d);
  out += "  by chance\n";
  neuron::Recurrence all;
  for (size_t k = 0; k < kHeatTenths; ++k) {
    const neuron::Recurrence tenth = figures.TenthOfAll(k);
    all.Add(tenth);
    out += RecurrenceRow(fmt::format("{}", k + 1), tenth);
  }
  return out + RecurrenceRow("all", all);
}

std::string UnitTables(const UnitFigures& figures, std::string_view units) {
  return fmt::format(
      "{}\n{}\nhot: the {:.0f} % of a layer's {} that are most frequent here; "
      "jaccard: a token and the one\nbefore it, a token and the hot {}, the "
      "hot {} of two texts\n\nP(active d tokens later | active) in %, by "
      "tenths "
      "of the {} from hot to cold\n{}",
      FormatLayerTable(figures.profile), DynamicsTable(figures),
      100.0 * neuron::kHotShare, units, units, units, units,
      RecurrenceTable(figures));
}

std::string NamedTable(const TraceReport& report) {
  if (report.named.empty()) return "";
  std::string out = "\nnamed           recall %  precision %  per fired\n";
  for (const NamingFigures& figures : report.named) {
    const neuron::Naming total = figures.total();
    const std::string name =
        figures.lookahead
            ? fmt::format("{} early", Plural(*figures.lookahead, "layer"))
            : "candidates";
    out += fmt::format(
        "{:<14}  {:>8}  {:>11}  {:>9}\n", name, PercentOr(total.recall()),
        PercentOr(total.precision()),
        total.num_fired == 0
            ? "-"
            : fmt::format("{:.2f}", static_cast<double>(total.num_named) /
                                        static_cast<double>(total.num_fired)));
  }
  return out;
}

std::string ExpertTables(const TraceReport& report) {
  if (!report.experts) return "";
  return fmt::format(
      "\nexperts: {:.2f} of {} used per token and layer\n\n{}",
      report.experts->profile.density() * report.header.num_experts,
      report.header.num_experts, UnitTables(*report.experts, "experts"));
}

}  // namespace

std::string FormatTrace(const TraceReport& report) {
  const neuron::TraceHeader& header = report.header;
  if (report.totals.num_tokens == 0) {
    return fmt::format("{}: nothing was recorded ({} positions)\n",
                       Escape(report.path), NameOf(header.positions));
  }
  return fmt::format(
             "{}: {} of {}, {} of them generated ({} positions)\n"
             "{}: {} of {}; {}, {:.0f} bytes per token\n\n",
             Escape(report.path), Plural(report.totals.num_tokens, "token"),
             Plural(report.totals.num_sequences, "prompt"),
             report.num_generated, NameOf(header.positions),
             header.model_name.empty() ? "a model" : Escape(header.model_name),
             Plural(header.num_layers, "layer"),
             Plural(header.num_neurons, "neuron"),
             FormatBytes(report.num_bytes), BytesPerToken(report)) +
         UnitTables(report.neurons, "neurons") + NamedTable(report) +
         ExpertTables(report);
}

}  // namespace thermocline::cli
