#include "cli/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "base/units.h"
#include "model/profile_file.h"
#include "neuron/json_values.h"

namespace thermocline::cli {
namespace {

using Json = nlohmann::ordered_json;

// Each takes some 16 bytes in a policy: 4 GiB at most.
constexpr uint64_t kMaxNeuronsOfCases = uint64_t{1} << 28;

constexpr std::string_view kTableHead =
    "| share % | policy        | hits % | of Belady % |  misses |     P50 |    "
    " "
    "P90 |     P99 | admitted |  wasted |\n"
    "|--------:|---------------|-------:|------------:|--------:|--------:|----"
    "----:|--------:|---------:|--------:|\n";

using Frequencies = std::vector<std::vector<float>>;  // [L][F]

Status CheckSimulationSize(const neuron::TraceReader& reader,
                           size_t num_cases) {
  const neuron::TraceHeader& header = reader.header();
  const uint64_t num_neurons = uint64_t{header.num_layers} * header.num_neurons;
  if (num_neurons <= kMaxNeuronsOfCases / std::max<size_t>(num_cases, 1)) {
    return {};
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: {} of {} are too many for {} of policies and shares at once",
              reader.name(), Plural(header.num_layers, "layer"),
              Plural(header.num_neurons, "neuron"), Plural(num_cases, "pair"));
}

Result<Frequencies> ReadFrequencies(const std::string& path,
                                    const neuron::TraceReader& reader) {
  TC_ASSIGN_OR_RETURN(const auto file, model::ReadProfile(path));
  const neuron::TraceHeader& header = reader.header();
  const auto& layers = file.profile.layers;
  const bool is_same =
      layers.size() == header.num_layers &&
      std::ranges::all_of(layers,
                          [&](const neuron::LayerProfile& layer) {
                            return layer.num_neurons() == header.num_neurons;
                          }) &&
      (header.model_hash == 0 || header.model_hash == file.model.hash);
  if (!is_same) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: its profile is of another model than the trace {}", path,
                reader.name());
  }
  Frequencies frequencies;
  for (const neuron::LayerProfile& layer : layers) {
    std::vector<float>& shares = frequencies.emplace_back();
    const auto num_tokens =
        static_cast<float>(std::max<uint64_t>(layer.num_tokens, 1));
    for (const uint32_t count : layer.counts) {
      shares.push_back(static_cast<float>(count) / num_tokens);
    }
  }
  return frequencies;
}

std::vector<residency::Case> CasesOf(const SimulateOptions& options) {
  std::vector<residency::Case> cases;
  for (const double share : options.shares) {
    for (const std::string& policy : options.policies) {
      cases.push_back({.name = policy, .share = share});
    }
  }
  return cases;
}

// Hits as a share of Belady's at the same capacity, where that was run too.
std::optional<double> ShareOfBelady(const SimulateReport& report, size_t idx) {
  for (size_t i = 0; i < report.cases.size(); ++i) {
    if (report.cases[i].name != "belady" ||
        report.cases[i].share != report.cases[idx].share) {
      continue;
    }
    const uint64_t most = report.replays[i].total().hits;
    if (most == 0) return std::nullopt;
    return static_cast<double>(report.replays[idx].total().hits) /
           static_cast<double>(most);
  }
  return std::nullopt;
}

// Per token; 0 without tokens.
double PerToken(uint64_t count, const SimulateReport& report) {
  return static_cast<double>(count) /
         static_cast<double>(std::max<uint64_t>(report.totals.num_tokens, 1));
}

std::string RowOf(const SimulateReport& report, size_t idx) {
  const residency::Replay& replay = report.replays[idx];
  const residency::Tally total = replay.total();
  const auto of_belady = ShareOfBelady(report, idx);
  return fmt::format(
      "| {:>7.4g} | {:<13} | {:>6.2f} | {:>11} | {:>7.1f} | {:>7} | {:>7} | "
      "{:>7} | {:>8.1f} | {:>7.1f} |\n",
      100.0 * report.cases[idx].share, report.cases[idx].name,
      100.0 * total.hit_share(),
      of_belady ? fmt::format("{:.1f}", 100.0 * *of_belady) : "-",
      replay.mean_misses(), replay.MissesAt(0.5), replay.MissesAt(0.9),
      replay.MissesAt(0.99), PerToken(total.admissions, report),
      PerToken(total.wasted, report));
}

Json TallyJson(const residency::Tally& tally) {
  return {{"accesses", tally.accesses},
          {"hits", tally.hits},
          {"admissions", tally.admissions},
          {"evictions", tally.evictions},
          {"wasted", tally.wasted}};
}

Json CaseJson(const SimulateReport& report, size_t idx) {
  const residency::Replay& replay = report.replays[idx];
  Json layers = Json::array();
  for (const residency::Tally& layer : replay.layers) {
    layers.push_back(TallyJson(layer));
  }
  Json json = {{"policy", report.cases[idx].name},
               {"share", report.cases[idx].share}};
  json.update(TallyJson(replay.total()));
  json["hit_share"] = replay.total().hit_share();
  json["of_belady"] = OrNull(ShareOfBelady(report, idx));
  json["misses_per_token"] = {{"mean", replay.mean_misses()},
                              {"p50", replay.MissesAt(0.5)},
                              {"p90", replay.MissesAt(0.9)},
                              {"p99", replay.MissesAt(0.99)}};
  json["layers"] = std::move(layers);
  return json;
}

}  // namespace

Result<SimulateReport> Simulate(const SimulateOptions& options,
                                const ProgressFn& progress) {
  TC_ASSIGN_OR_RETURN(auto reader,
                      neuron::TraceReader::Open(options.trace_path));
  SimulateReport report = {.options = options,
                           .header = reader.header(),
                           .totals = reader.totals(),
                           .cases = CasesOf(options)};
  TC_RETURN_IF_ERROR(CheckSimulationSize(reader, report.cases.size()));
  Frequencies frequencies(report.header.num_layers);
  if (options.counts_path.has_value()) {
    TC_ASSIGN_OR_RETURN(frequencies,
                        ReadFrequencies(*options.counts_path, reader));
  }
  std::vector<residency::LayerExtent> layers;
  for (const std::vector<float>& frequency : frequencies) {
    layers.push_back({report.header.num_neurons, 0, frequency});
  }
  uint64_t num_read = 0;
  neuron::TraceToken token;
  const residency::NextToken next =
      [&](std::vector<std::vector<uint32_t>>& sets) {
        ReportProgress(progress, "tokens", num_read++,
                       report.totals.num_tokens + 1);
        return reader.Next(token, sets);
      };
  TC_ASSIGN_OR_RETURN(report.replays,
                      residency::ReplayCases(layers, report.cases, next));
  return report;
}

std::string FormatSimulation(const SimulateReport& report) {
  const neuron::TraceHeader& header = report.header;
  std::string text = fmt::format(
      "{}: {} of {} ({} positions), {}: {} of {}\n{}\n\n",
      Escape(report.options.trace_path),
      Plural(report.totals.num_tokens, "token"),
      Plural(report.totals.num_sequences, "prompt"),
      header.positions == neuron::TracePositions::kGenerated ? "generated"
                                                             : "all",
      header.model_name.empty() ? "a model" : Escape(header.model_name),
      Plural(header.num_layers, "layer"), Plural(header.num_neurons, "neuron"),
      report.options.counts_path.has_value()
          ? fmt::format("first resident: the most frequent of {}",
                        Escape(*report.options.counts_path))
          : "first resident: the first neurons of each layer, for want of "
            "--counts");
  text += kTableHead;
  for (size_t i = 0; i < report.cases.size(); ++i) text += RowOf(report, i);
  return text;
}

std::string FormatSimulationJson(const SimulateReport& report) {
  Json cases = Json::array();
  for (size_t i = 0; i < report.cases.size(); ++i) {
    cases.push_back(CaseJson(report, i));
  }
  const Json json = {{"trace", report.options.trace_path},
                     {"model", report.header.model_name},
                     {"counts", OrNull(report.options.counts_path)},
                     {"num_layers", report.header.num_layers},
                     {"num_neurons", report.header.num_neurons},
                     {"prompts", report.totals.num_sequences},
                     {"tokens", report.totals.num_tokens},
                     {"cases", std::move(cases)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace thermocline::cli
