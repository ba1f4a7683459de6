#include "cli/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/units.h"
#include "engine/stream/live_policy.h"
#include "model/profile_file.h"

namespace thermocline::cli {
namespace {

// Each takes some 16 bytes in a policy: 4 GiB at most.
constexpr uint64_t kMaxNeuronsOfCases = uint64_t{1} << 28;

using Frequencies = std::vector<std::vector<float>>;  // [L][F]

Status CheckSimulationSize(const neuron::TraceReader& reader,
                           size_t num_policies) {
  const neuron::TraceHeader& header = reader.header();
  const uint64_t num_neurons = uint64_t{header.num_layers} * header.num_neurons;
  if (num_neurons <= kMaxNeuronsOfCases / std::max<size_t>(num_policies, 1)) {
    return {};
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: {} of {} are too many for {} at once: name fewer policies",
              reader.name(), Plural(header.num_layers, "layer"),
              Plural(header.num_neurons, "neuron"),
              fmt::format("{} policies", num_policies));
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

double MeanBytes(const SimulatedUnits& units) {
  double bytes = 0.0;
  uint64_t num_members = 0;
  for (size_t l = 0; l < units.member_bytes.size(); ++l) {
    bytes += units.member_bytes[l] * units.num_members[l];
    num_members += units.num_members[l];
  }
  return num_members == 0 ? 0.0 : bytes / static_cast<double>(num_members);
}

// Room as units of each layer, and what it is called.
struct Room {
  double share = 0.0;
  std::optional<uint64_t> tier_bytes;
  std::vector<uint32_t> capacities;  // [L]
};

std::vector<Room> RoomsOf(const SimulateOptions& options,
                          const SimulatedUnits& units) {
  std::vector<Room> rooms;
  if (options.tier_bytes.empty()) {
    for (const double share : options.shares) {
      rooms.push_back({share, {}, units.CapacitiesOfShare(share)});
    }
    return rooms;
  }
  for (const uint64_t tier_bytes : options.tier_bytes) {
    const auto bytes = static_cast<double>(tier_bytes);
    rooms.push_back({std::min(bytes / units.size(), 1.0), tier_bytes,
                     units.CapacitiesOf(bytes)});
  }
  return rooms;
}

class Simulation {
 public:
  Simulation(SimulateReport* report, const ProgressFn& progress)
      : report_(*report), progress_(progress) {}

  Status Run() {
    for (const SimulatedUnits& units : report_.units) {
      num_readings_ += RoomsOf(report_.options, units).size();
    }
    for (size_t i = 0; i < report_.units.size(); ++i) {
      for (const Room& room : RoomsOf(report_.options, report_.units[i])) {
        TC_RETURN_IF_ERROR(RunRoom(i, room));
        ++num_done_;
      }
    }
    return {};
  }

 private:
  Status RunRoom(size_t units_idx, const Room& room) {
    const SimulatedUnits& units = report_.units[units_idx];
    std::vector<residency::Case> cases;
    for (const std::string& policy : report_.options.policies) {
      cases.push_back({policy, room.share, room.capacities});
    }
    const residency::ReplayOptions options = OptionsFor(units, room);
    TC_ASSIGN_OR_RETURN(auto replays, Replays(units, cases, options));
    for (size_t i = 0; i < cases.size(); ++i) {
      report_.cases.push_back({.policy = cases[i].name,
                               .units_idx = units_idx,
                               .share = room.share,
                               .tier_bytes = room.tier_bytes,
                               .moves_per_token = options.moves_per_token,
                               .replay = std::move(replays[i])});
    }
    return {};
  }

  Result<std::vector<residency::Replay>> Replays(
      const SimulatedUnits& units, const std::vector<residency::Case>& cases,
      const residency::ReplayOptions& options) {
    TC_ASSIGN_OR_RETURN(auto reader,
                        neuron::TraceReader::Open(report_.options.trace_path));
    const uint64_t num_tokens = report_.totals.num_tokens;
    uint64_t num_read = num_done_ * num_tokens;
    neuron::TraceToken token;
    neuron::TraceSets fired;
    return residency::ReplayCases(
        units.Extents(), cases,
        [&](std::vector<std::vector<uint32_t>>& sets) -> Result<bool> {
          ReportProgress(progress_, "tokens", num_read++,
                         num_readings_ * num_tokens + 1);
          TC_ASSIGN_OR_RETURN(const bool is_token, reader.Next(token, fired));
          if (is_token) units.MapToken(reader, fired, sets);
          return is_token;
        },
        options);
  }

  // What all policies with this room are given.
  residency::ReplayOptions OptionsFor(const SimulatedUnits& units,
                                      const Room& room) const {
    residency::ReplayOptions options = {.misses = report_.rates.misses};
    const double bytes = MeanBytes(units);
    const residency::MoveRates rates = report_.rates.Of(
        bytes, static_cast<double>(report_.options.dense_bytes),
        report_.header.num_layers);
    if (bytes > 0.0) residency::UseRates(rates, options);
    if (report_.options.as_deterministic_run) {
      UseFixedMoves(units, room, options);
    } else if (report_.options.move_bytes_per_token.has_value()) {
      const double moves =
          bytes == 0.0
              ? 0.0
              : static_cast<double>(*report_.options.move_bytes_per_token) /
                    (bytes * static_cast<double>(units.group_size));
      options.moves_per_token = static_cast<uint64_t>(std::min(moves, 0x1p62));
    } else if (report_.rates.misses == residency::Misses::kComputed) {
      options.moves_per_token = MovesInWindow(units, room.share, rates);
    }
    return options;
  }

  static void UseFixedMoves(const SimulatedUnits& units, const Room& room,
                            residency::ReplayOptions& options) {
    std::vector<residency::LayerExtent> extents = units.Extents();
    for (size_t l = 0; l < extents.size(); ++l) {
      extents[l].capacity = room.capacities[l];
    }
    const residency::ReplayOptions fixed =
        engine::ReplayOptionsFor(engine::FixedMovesPerToken(extents));
    options.misses = fixed.misses;
    options.moves_per_token = fixed.moves_per_token;
    options.bottleneck = fixed.bottleneck;
  }

  // Members that a token uses of a layer, on average.
  double UsedOfLayer(const SimulatedUnits& units) const {
    const auto num_layers = static_cast<double>(report_.header.num_layers);
    if (units.are_experts) {
      return std::accumulate(units.num_used.begin(), units.num_used.end(),
                             0.0) /
             num_layers;
    }
    const auto num_tokens = static_cast<double>(report_.totals.num_tokens);
    const auto num_fired = static_cast<double>(report_.totals.num_fired);
    return std::min(num_fired / std::max(num_tokens * num_layers, 1.0),
                    static_cast<double>(report_.header.num_neurons));
  }

  // Of a token that uses as many as the average one, and hits by the share.
  uint64_t MovesInWindow(const SimulatedUnits& units, double share,
                         const residency::MoveRates& rates) const {
    const double used = UsedOfLayer(units);
    const auto hits = static_cast<uint32_t>(std::lround(used * share));
    const auto misses = static_cast<uint32_t>(std::lround(used)) - hits;
    const uint32_t members =
        residency::MovesInWindow(rates, {.hits = hits, .misses = misses});
    return uint64_t{members / static_cast<uint32_t>(units.group_size)} *
           report_.header.num_layers;
  }

  SimulateReport& report_;
  const ProgressFn& progress_;
  uint64_t num_readings_ = 0;
  uint64_t num_done_ = 0;
};

Status CheckBytes(const SimulateOptions& options,
                  const neuron::TraceReader& reader) {
  if (!reader.header().unit_bytes.empty()) return {};
  if (options.tier_bytes.empty() && !options.move_bytes_per_token) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: does not say how many bytes its neurons have, as traces of "
              "older versions: record it again, or use --share",
              reader.name());
}

}  // namespace

Result<SimulateReport> Simulate(const SimulateOptions& options,
                                const ProgressFn& progress) {
  TC_ASSIGN_OR_RETURN(auto reader,
                      neuron::TraceReader::Open(options.trace_path));
  TC_RETURN_IF_ERROR(CheckSimulationSize(reader, options.policies.size()));
  TC_RETURN_IF_ERROR(CheckBytes(options, reader));
  SimulateReport report = {
      .options = options, .header = reader.header(), .totals = reader.totals()};
  // Such a run reads what it misses.
  TC_ASSIGN_OR_RETURN(
      report.rates, RatesOf(options.machine_path, options.as_deterministic_run
                                                      ? residency::Misses::kRead
                                                      : options.misses));
  Frequencies frequencies(report.header.num_layers);
  if (options.counts_path.has_value()) {
    TC_ASSIGN_OR_RETURN(frequencies,
                        ReadFrequencies(*options.counts_path, reader));
  }
  UnitOptions units = options.units;
  units.by_candidates =
      options.as_deterministic_run && report.header.has_candidates;
  TC_ASSIGN_OR_RETURN(report.units, DivideTrace(reader, units, frequencies));
  TC_RETURN_IF_ERROR(Simulation(&report, progress).Run());
  return report;
}

}  // namespace thermocline::cli
