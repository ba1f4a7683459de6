// How simulations are shown: figures, a table, JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/quote.h"
#include "base/units.h"
#include "cli/run_trace.h"
#include "cli/simulate_report.h"
#include "neuron/json_values.h"

namespace thermocline::cli {
namespace {

using Json = nlohmann::ordered_json;
using residency::Tally;

constexpr std::string_view kTableHead =
    "| room      | units         | policy        | hits % | of Belady % | "
    "misses |    P99 | moved / token | wasted % | idle % | token, ms |    P99 "
    "|\n"
    "|----------:|---------------|---------------|-------:|------------:|-----"
    "--:|-------:|--------------:|---------:|-------:|----------:|-------:|\n";

double Ratio(double part, double whole) {
  return whole == 0.0 ? 0.0 : part / whole;
}

// Of all layers, weighed by the bytes of a member, or alike.
template <typename Count>
double Weighed(const SimulateReport& report, const SimulatedCase& one,
               Count count) {
  const std::vector<double>& bytes = report.units[one.units_idx].member_bytes;
  double sum = 0.0;
  for (size_t l = 0; l < one.replay.layers.size(); ++l) {
    sum += (bytes.empty() ? 1.0 : bytes[l]) *
           static_cast<double>(count(one.replay.layers[l]));
  }
  return sum;
}

double Hits(const SimulateReport& report, const SimulatedCase& one) {
  return Weighed(report, one, [](const Tally& t) { return t.member_hits; });
}

std::optional<double> OfBelady(const SimulateReport& report,
                               const SimulatedCase& one) {
  for (const SimulatedCase& other : report.cases) {
    if (other.policy != "belady" || other.units_idx != one.units_idx ||
        other.share != one.share) {
      continue;
    }
    const double most = Hits(report, other);
    if (most == 0.0) return std::nullopt;
    return Hits(report, one) / most;
  }
  return std::nullopt;
}

std::string Percent(std::optional<double> share) {
  return share ? fmt::format("{:.1f}", 100.0 * *share) : "-";
}

std::string RoomName(const SimulatedCase& one) {
  return one.tier_bytes ? FormatBytes(*one.tier_bytes)
                        : fmt::format("{:.4g} %", 100.0 * one.share);
}

std::string Milliseconds(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.3f}", 1e3 * *seconds) : "-";
}

std::string RowOf(const SimulateReport& report, size_t idx) {
  const SimulatedCase& one = report.cases[idx];
  const CaseFigures figures = FiguresOf(report, idx);
  std::optional<double> wasted;
  if (figures.moved_bytes) {
    wasted = Ratio(*figures.wasted_bytes, *figures.moved_bytes);
  }
  const std::string moved =
      figures.moved_bytes
          ? BytesText(PerToken(*figures.moved_bytes, one))
          : fmt::format("{:.1f}",
                        PerToken(static_cast<double>(
                                     one.replay.total().fetched_members),
                                 one));
  return fmt::format(
      "| {:>9} | {:<13} | {:<13} | {:>6.2f} | {:>11} | {:>6.1f} | {:>6} | "
      "{:>13} | {:>8} | {:>6.1f} | {:>9} | {:>6} |\n",
      RoomName(one), report.units[one.units_idx].name, one.policy,
      100.0 * figures.hit_share, Percent(figures.of_belady),
      one.replay.mean_misses(), one.replay.MissesAt(0.99), moved,
      Percent(wasted), 100.0 * figures.idle_share,
      Milliseconds(figures.token_seconds),
      Milliseconds(figures.token_seconds_p99));
}

std::string FirstResident(const SimulateReport& report) {
  if (report.options.counts_path.has_value()) {
    return fmt::format("first resident: the most frequent of {}",
                       Escape(*report.options.counts_path));
  }
  if (report.is_of_run && !report.header.run->shares.empty()) {
    return "first resident: the most frequent, as in the run that wrote it";
  }
  return "first resident: the first neurons of each layer, for want of "
         "--counts";
}

// What that run says of itself when it has written the trace.
std::string CountsAsOfRun(const SimulateReport& report) {
  std::string text = "\nof the tokens that the run generated:\n";
  for (const SimulatedCase& one : report.cases) {
    const Tally total = one.replay.total();
    text += fmt::format(
        "  {:<13} {}\n", one.policy,
        DescribePolicyCounts(total.hits, total.accesses, total.admissions,
                             total.moves, total.wasted));
  }
  return text;
}

Json TallyJson(const Tally& tally) {
  return {{"accesses", tally.accesses},     {"hits", tally.hits},
          {"admissions", tally.admissions}, {"moves", tally.moves},
          {"evictions", tally.evictions},   {"wasted", tally.wasted}};
}

Json CaseJson(const SimulateReport& report, size_t idx) {
  const SimulatedCase& one = report.cases[idx];
  const CaseFigures figures = FiguresOf(report, idx);
  Json layers = Json::array();
  for (const Tally& layer : one.replay.layers) {
    layers.push_back(TallyJson(layer));
  }
  Json json = {{"name", one.policy},
               {"units", report.units[one.units_idx].name},
               {"share", one.share},
               {"tier_bytes", OrNull(one.tier_bytes)},
               {"hit_share", figures.hit_share},
               {"of_belady", OrNull(figures.of_belady)},
               {"moved_bytes", OrNull(figures.moved_bytes)},
               {"wasted_bytes", OrNull(figures.wasted_bytes)},
               {"idle_share", figures.idle_share},
               {"token_seconds", OrNull(figures.token_seconds)},
               {"token_seconds_p99", OrNull(figures.token_seconds_p99)},
               {"moves_per_token", one.moves_per_token}};
  json.update(TallyJson(one.replay.total()));
  json["misses_per_token"] = {{"mean", one.replay.mean_misses()},
                              {"p50", one.replay.MissesAt(0.5)},
                              {"p90", one.replay.MissesAt(0.9)},
                              {"p99", one.replay.MissesAt(0.99)}};
  json["layers"] = std::move(layers);
  return json;
}

}  // namespace

double PerToken(double count, const SimulatedCase& one) {
  return count / std::max(static_cast<double>(one.replay.misses.size()), 1.0);
}

std::string BytesText(double bytes) {
  return FormatBytes(static_cast<uint64_t>(std::min(bytes, 0x1p63)));
}

CaseFigures FiguresOf(const SimulateReport& report, size_t case_idx) {
  const SimulatedCase& one = report.cases[case_idx];
  const SimulatedUnits& units = report.units[one.units_idx];
  const Tally total = one.replay.total();
  CaseFigures figures = {
      .hit_share = Ratio(Hits(report, one), Weighed(report, one,
                                                    [](const Tally& t) {
                                                      return t.member_accesses;
                                                    })),
      .of_belady = OfBelady(report, one),
      .idle_share = Ratio(static_cast<double>(total.idle_members),
                          static_cast<double>(total.fetched_members))};
  if (units.member_bytes.empty()) return figures;
  figures.moved_bytes =
      Weighed(report, one, [](const Tally& t) { return t.fetched_members; });
  figures.wasted_bytes =
      Weighed(report, one, [](const Tally& t) { return t.wasted_members; });
  figures.token_seconds = one.replay.mean_seconds();
  figures.token_seconds_p99 = one.replay.SecondsAt(0.99);
  return figures;
}

std::string FormatSimulation(const SimulateReport& report) {
  const neuron::TraceHeader& header = report.header;
  std::string text = fmt::format(
      "{}: {} of {} ({} positions), {}: {} of {}\n{}\n{}: {}\n\n",
      Escape(report.options.trace_path),
      Plural(report.totals.num_tokens, "token"),
      Plural(report.totals.num_sequences, "prompt"),
      header.positions == neuron::TracePositions::kGenerated ? "generated"
                                                             : "all",
      header.model_name.empty() ? "a model" : Escape(header.model_name),
      Plural(header.num_layers, "layer"), Plural(header.num_neurons, "neuron"),
      FirstResident(report),
      report.rates.misses == residency::Misses::kRead
          ? "who misses is read, and may stay"
          : "who misses is computed where it lies; moves run beside",
      report.rates.name);
  text += kTableHead;
  for (size_t i = 0; i < report.cases.size(); ++i) text += RowOf(report, i);
  return report.is_of_run ? text + CountsAsOfRun(report) : text;
}

std::string FormatSimulationJson(const SimulateReport& report) {
  Json cases = Json::array();
  for (size_t i = 0; i < report.cases.size(); ++i) {
    cases.push_back(CaseJson(report, i));
  }
  const Json json = {
      {"trace", report.options.trace_path},
      {"model", report.header.model_name},
      {"counts", OrNull(report.options.counts_path)},
      {"num_layers", report.header.num_layers},
      {"num_neurons", report.header.num_neurons},
      {"prompts", report.totals.num_sequences},
      {"tokens", report.totals.num_tokens},
      {"is_of_run", report.is_of_run},
      {"misses",
       report.rates.misses == residency::Misses::kRead ? "read" : "computed"},
      {"rates",
       {{"name", report.rates.name},
        {"fast", report.rates.fast},
        {"slow", report.rates.slow},
        {"link", report.rates.link}}},
      {"policies", std::move(cases)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace thermocline::cli
