#include "cli/trace_report.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/units.h"
#include "cli/profile_report.h"
#include "neuron/json_values.h"

namespace thermocline::cli {
namespace {

using Json = nlohmann::ordered_json;

// More than any model has. Each takes 8 bytes, a count in the builder and one
// in the report, whatever the size of the file: 512 MiB at most.
constexpr uint64_t kMaxNeurons = uint64_t{1} << 26;

std::string_view NameOf(neuron::TracePositions positions) {
  return positions == neuron::TracePositions::kGenerated ? "generated" : "all";
}

Status CheckSize(const neuron::TraceReader& reader) {
  const neuron::TraceHeader& header = reader.header();
  const uint64_t num_neurons = uint64_t{header.num_layers} * header.num_neurons;
  if (num_neurons <= kMaxNeurons &&
      reader.totals().num_tokens <= neuron::kMaxProfileTokens) {
    return {};
  }
  return Fail(
      ErrorCode::kUnsupported, "{}: {} of {} of {} are too many to count",
      reader.name(), Plural(reader.totals().num_tokens, "token"),
      Plural(header.num_layers, "layer"), Plural(header.num_neurons, "neuron"));
}

// Of a trace with tokens.
double BytesPerToken(const TraceReport& report) {
  return static_cast<double>(report.num_bytes) /
         static_cast<double>(report.totals.num_tokens);
}

}  // namespace

Result<TraceReport> ReadTrace(const std::string& path,
                              const ProgressFn& progress) {
  TC_ASSIGN_OR_RETURN(auto reader, neuron::TraceReader::Open(path));
  TC_RETURN_IF_ERROR(CheckSize(reader));
  std::error_code ignored;
  TraceReport report = {.path = path,
                        .num_bytes = std::filesystem::file_size(path, ignored),
                        .header = reader.header(),
                        .totals = reader.totals()};
  neuron::ProfileBuilder builder(report.header.num_layers,
                                 report.header.num_neurons);
  neuron::TraceToken token;
  std::vector<std::vector<uint32_t>> sets;
  for (uint64_t num_read = 0;; ++num_read) {
    ReportProgress(progress, "tokens", num_read, report.totals.num_tokens);
    TC_ASSIGN_OR_RETURN(const bool is_token, reader.Next(token, sets));
    if (!is_token) break;
    if (token.begins_sequence) builder.BeginSequence();
    if (token.is_generated) ++report.num_generated;
    for (size_t l = 0; l < sets.size(); ++l) builder.Add(l, sets[l]);
  }
  report.profile = builder.profile();
  return report;
}

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
         FormatLayerTable(report.profile);
}

std::string FormatTraceJson(const TraceReport& report) {
  const neuron::TraceHeader& header = report.header;
  // Figures of nothing are none, not 0.
  const bool is_empty = report.totals.num_tokens == 0;
  const auto figure = [is_empty](double value) {
    return is_empty ? Json(nullptr) : Json(value);
  };
  Json layers = Json::array();
  for (size_t l = 0; l < report.profile.layers.size() && !is_empty; ++l) {
    const neuron::LayerProfile& layer = report.profile.layers[l];
    layers.push_back({{"layer", l},
                      {"density", layer.density()},
                      {"density_deviation", layer.density_deviation()},
                      {"skew", layer.skew()},
                      {"never_fired", layer.never_fired()},
                      {"locality", OrNull(layer.locality())},
                      {"chance_locality", layer.chance_locality()}});
  }
  const Json json = {{"model", header.model_name},
                     {"hash", fmt::format("{:016x}", header.model_hash)},
                     {"num_layers", header.num_layers},
                     {"num_neurons", header.num_neurons},
                     {"positions", NameOf(header.positions)},
                     {"prompts", report.totals.num_sequences},
                     {"tokens", report.totals.num_tokens},
                     {"generated", report.num_generated},
                     {"fired", report.totals.num_fired},
                     {"bytes", report.num_bytes},
                     {"density", figure(report.profile.density())},
                     {"skew", figure(report.profile.skew())},
                     {"locality", OrNull(report.profile.locality())},
                     {"layers", std::move(layers)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace thermocline::cli
