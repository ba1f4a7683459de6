#include "cli/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/units.h"
#include "cli/simulate_steps.h"
#include "engine/stream/live_policy.h"
#include "model/profile_file.h"

namespace thermocline::cli {
namespace {

constexpr double kUsualShares[] = {0.1, 0.25, 0.5};
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

// Whether these are what came and went in the run that wrote the trace.
bool AreRunsUnits(const SimulateReport& report, const SimulatedUnits& units) {
  return report.is_of_run && units.group_size == 1 && units.places.empty() &&
         units.are_experts == report.header.run->by_experts;
}

Room RoomOfRun(const neuron::TraceRun& run, const SimulatedUnits& units) {
  Room room = {.capacities = run.slots};
  for (size_t l = 0; l < run.slots.size(); ++l) {
    room.share += units.MemberSize(l) * run.slots[l] / units.size();
  }
  room.share = std::min(room.share, 1.0);
  return room;
}

std::vector<Room> RoomsOf(const SimulateReport& report,
                          const SimulatedUnits& units) {
  const SimulateOptions& options = report.options;
  std::vector<Room> rooms;
  if (options.tier_bytes.empty()) {
    if (options.shares.empty() && AreRunsUnits(report, units)) {
      return {RoomOfRun(*report.header.run, units)};
    }
    const auto shares = options.shares.empty()
                            ? std::span<const double>(kUsualShares)
                            : std::span<const double>(options.shares);
    for (const double share : shares) {
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
      num_readings_ += RoomsOf(report_, units).size();
    }
    for (size_t i = 0; i < report_.units.size(); ++i) {
      for (const Room& room : RoomsOf(report_, report_.units[i])) {
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
    TokenSteps steps(&reader, &units, report_.is_of_run);
    return residency::ReplayCases(
        units.Extents(), cases,
        [&](std::vector<std::vector<uint32_t>>& sets) {
          ReportProgress(progress_, "tokens",
                         num_done_ * num_tokens + steps.num_read(),
                         num_readings_ * num_tokens + 1);
          return steps.Next(sets);
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

// Of neurons, as DivideTrace takes them; none without any.
Result<Frequencies> FrequenciesFor(const neuron::TraceReader& reader,
                                   const SimulateReport& report) {
  if (report.options.counts_path.has_value()) {
    return ReadFrequencies(*report.options.counts_path, reader);
  }
  const bool are_runs = report.is_of_run && !report.header.run->by_experts &&
                        !report.header.run->shares.empty();
  return are_runs ? report.header.run->shares
                  : Frequencies(report.header.num_layers);
}

Status DivideFor(const neuron::TraceReader& reader, SimulateReport& report) {
  TC_ASSIGN_OR_RETURN(const Frequencies frequencies,
                      FrequenciesFor(reader, report));
  UnitOptions options = report.options.units;
  options.by_candidates =
      report.options.as_deterministic_run && report.header.has_candidates;
  const bool are_single =
      options.group_sizes == std::vector<size_t>{1} && !options.split_path;
  if (!options.by_experts && report.is_of_run && are_single) {
    options.by_experts = report.header.run->by_experts;
  }
  TC_ASSIGN_OR_RETURN(report.units, DivideTrace(reader, options, frequencies));
  for (SimulatedUnits& units : report.units) {
    if (!report.options.counts_path && AreRunsUnits(report, units)) {
      units.frequency = report.header.run->shares;
    }
  }
  return {};
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
  report.is_of_run =
      options.as_deterministic_run && report.header.run.has_value();
  TC_RETURN_IF_ERROR(DivideFor(reader, report));
  TC_RETURN_IF_ERROR(Simulation(&report, progress).Run());
  return report;
}

}  // namespace thermocline::cli
