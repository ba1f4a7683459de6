#include "cli/simulate_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/math.h"
#include "base/units.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/firing_shares.h"
#include "model/split_file.h"

namespace thermocline::cli {
namespace {

using neuron::TraceHeader;
using neuron::TraceReader;
using Orders = std::vector<std::vector<uint32_t>>;  // [L][F] neuron at a place

// Tokens that groups are found in, and what their rows may take.
constexpr size_t kMaxGroupTokens = 4096;
constexpr uint64_t kMaxGroupBytes = uint64_t{4} << 30;

std::vector<double> MemberBytes(const TraceHeader& header, bool by_experts) {
  std::vector<double> bytes;
  const double per_unit =
      by_experts || header.num_experts == 0
          ? 1.0
          : static_cast<double>(header.num_neurons / header.num_experts);
  for (const uint64_t unit : header.unit_bytes) {
    bytes.push_back(static_cast<double>(unit) / per_unit);
  }
  return bytes;
}

Status CheckSameShape(const TraceReader& mine, const TraceReader& other) {
  const TraceHeader& a = mine.header();
  const TraceHeader& b = other.header();
  if (a.num_layers == b.num_layers && a.num_neurons == b.num_neurons &&
      (a.model_hash == 0 || b.model_hash == 0 ||
       a.model_hash == b.model_hash)) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "{}: is of another model than the trace {}", other.name(),
              mine.name());
}

// Who fired with whom, of every so many tokens.
Result<std::vector<planner::FiringRows>> ReadFiring(TraceReader reader) {
  const uint64_t num_tokens = reader.totals().num_tokens;
  const uint64_t step =
      std::max<uint64_t>(CeilDiv<uint64_t>(num_tokens, kMaxGroupTokens), 1);
  const size_t num_samples = CeilDiv<uint64_t>(num_tokens, step);
  const uint64_t row_bytes = CeilDiv<uint64_t>(num_samples, 64) * 8;
  const uint64_t num_neurons =
      uint64_t{reader.header().num_layers} * reader.header().num_neurons;
  if (row_bytes > 0 && num_neurons > kMaxGroupBytes / row_bytes) {
    return Fail(ErrorCode::kUnsupported,
                "{}: {} are too many to find groups of", reader.name(),
                Plural(num_neurons, "neuron"));
  }
  std::vector<planner::FiringRows> rows(
      reader.header().num_layers,
      planner::FiringRows(reader.header().num_neurons, num_samples));
  neuron::TraceToken token;
  neuron::TraceSets fired;
  for (uint64_t t = 0;; ++t) {
    TC_ASSIGN_OR_RETURN(const bool is_token, reader.Next(token, fired));
    if (!is_token) return rows;
    if (t % step != 0) continue;
    for (size_t l = 0; l < fired.size(); ++l) {
      for (const uint32_t neuron : fired[l]) rows[l].Add(neuron, t / step);
    }
  }
}

std::vector<uint32_t> ByHeat(const planner::FiringRows& rows) {
  std::vector<int64_t> counts;
  for (uint32_t i = 0; i < rows.num_neurons(); ++i) {
    counts.push_back(rows.Count(i));
  }
  std::vector<uint32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
  });
  return order;
}

Orders Inverse(const Orders& orders) {
  Orders places = orders;
  for (size_t l = 0; l < orders.size(); ++l) {
    for (uint32_t place = 0; place < orders[l].size(); ++place) {
      places[l][orders[l][place]] = place;
    }
  }
  return places;
}

// For each size.
Result<std::vector<Orders>> OrdersOf(
    const std::vector<planner::FiringRows>& rows, planner::Grouping grouping,
    std::span<const size_t> group_sizes) {
  std::vector<Orders> orders(group_sizes.size());
  for (const planner::FiringRows& layer : rows) {
    TC_ASSIGN_OR_RETURN(
        auto of_sizes,
        planner::GroupNeurons(layer, ByHeat(layer), group_sizes, grouping));
    for (size_t i = 0; i < orders.size(); ++i) {
      orders[i].push_back(std::move(of_sizes[i]));
    }
  }
  return orders;
}

// A unit is used when any of its members is; as if these had nothing to do with
// each other.
std::vector<std::vector<float>> FrequencyOfUnits(
    const SimulatedUnits& units,
    const std::vector<std::vector<float>>& frequency) {
  std::vector<std::vector<float>> all;
  for (size_t l = 0; l < frequency.size(); ++l) {
    if (frequency[l].empty()) return {};
    std::vector<double> rests(
        CeilDiv<size_t>(frequency[l].size(), units.group_size), 1.0);
    for (size_t i = 0; i < frequency[l].size(); ++i) {
      const size_t place = units.places.empty() ? i : units.places[l][i];
      rests[place / units.group_size] *=
          1.0 - std::min(static_cast<double>(frequency[l][i]), 1.0);
    }
    std::vector<float>& layer = all.emplace_back();
    for (const double rest : rests) {
      layer.push_back(static_cast<float>(1.0 - rest));
    }
  }
  return all;
}

// [L] experts of the first token: routers choose as many for each.
Result<std::vector<uint32_t>> ExpertsPerToken(const std::string& path) {
  TC_ASSIGN_OR_RETURN(auto reader, TraceReader::Open(path));
  neuron::TraceToken token;
  neuron::TraceSets fired;
  TC_ASSIGN_OR_RETURN(const bool is_token, reader.Next(token, fired));
  std::vector<uint32_t> counts(reader.header().num_layers, 0);
  for (size_t l = 0; is_token && l < counts.size(); ++l) {
    counts[l] = static_cast<uint32_t>(reader.experts()[l].size());
  }
  return counts;
}

// How often experts are chosen is not counted: as often as their neurons fire.
std::vector<std::vector<float>> FrequencyOfExperts(
    const TraceHeader& header, const std::vector<uint32_t>& num_used,
    const std::vector<std::vector<float>>& frequency) {
  std::vector<std::vector<float>> all;
  for (size_t l = 0; l < frequency.size(); ++l) {
    if (frequency[l].empty()) return {};
    all.push_back(
        model::SharesOfExperts(frequency[l], header.num_experts, num_used[l]));
  }
  return all;
}

Result<SimulatedUnits> Experts(
    const TraceReader& reader,
    const std::vector<std::vector<float>>& frequency) {
  const TraceHeader& header = reader.header();
  if (header.num_experts == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: has no experts: it is of no mixture, or of an older "
                "version",
                reader.name());
  }
  TC_ASSIGN_OR_RETURN(auto num_used, ExpertsPerToken(reader.name()));
  return SimulatedUnits{
      .name = "experts",
      .are_experts = true,
      .member_bytes = MemberBytes(header, true),
      .frequency = FrequencyOfExperts(header, num_used, frequency),
      .num_members =
          std::vector<uint32_t>(header.num_layers, header.num_experts),
      .num_used = std::move(num_used)};
}

SimulatedUnits Neurons(const TraceHeader& header, size_t group_size) {
  return {.name = group_size == 1 ? "neurons"
                                  : fmt::format("groups of {}", group_size),
          .group_size = group_size,
          .member_bytes = MemberBytes(header, false),
          .num_members =
              std::vector<uint32_t>(header.num_layers, header.num_neurons)};
}

Result<SimulatedUnits> SplitGroups(const TraceReader& reader,
                                   const std::string& path) {
  const TraceHeader& header = reader.header();
  model::Config config;
  config.num_layers = header.num_layers;
  config.layers.resize(header.num_layers);
  for (model::LayerSpec& layer : config.layers) {
    layer.ffn.width = header.num_neurons;
  }
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(path));
  TC_ASSIGN_OR_RETURN(model::Split split, model::ReadSplit(*file, config));
  if (!split.order.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: says which neurons are hot, not which are groups: it is "
                "PowerInfer's, not KAIROX's",
                path);
  }
  SimulatedUnits units = Neurons(header, split.order->group_size);
  units.name += " (split file)";
  units.places = Inverse(split.order->layers);
  units.pattern = std::move(split.order->pattern);
  return units;
}

// Reads the trace that groups are found in, if any has to be.
Result<std::vector<planner::FiringRows>> FiringFor(const TraceReader& reader,
                                                   const UnitOptions& options) {
  if (!options.grouping.has_value()) {
    return std::vector<planner::FiringRows>();
  }
  if (!options.groups_path.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                "groups of those that fire together are found in a trace of "
                "other text (--groups-from)");
  }
  TC_ASSIGN_OR_RETURN(auto other, TraceReader::Open(*options.groups_path));
  TC_RETURN_IF_ERROR(CheckSameShape(reader, other));
  return ReadFiring(std::move(other));
}

Result<std::vector<SimulatedUnits>> Groups(const TraceReader& reader,
                                           const UnitOptions& options) {
  std::vector<size_t> found;  // sizes of groups that are not by number
  for (const size_t size : options.group_sizes) {
    if (size == 0 || size > reader.header().num_neurons) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: groups of {}, but a layer has {} neurons", reader.name(),
                  size, reader.header().num_neurons);
    }
    if (size > 1 && options.grouping) found.push_back(size);
  }
  TC_ASSIGN_OR_RETURN(const auto rows, FiringFor(reader, options));
  std::vector<Orders> orders;
  if (!found.empty()) {
    TC_ASSIGN_OR_RETURN(orders, OrdersOf(rows, *options.grouping, found));
  }
  std::vector<SimulatedUnits> all;
  auto next = orders.begin();
  for (const size_t size : options.group_sizes) {
    SimulatedUnits units = Neurons(reader.header(), size);
    if (size > 1 && options.grouping) {
      units.places = Inverse(*next++);
      units.name += fmt::format(" ({})", NameOf(*options.grouping));
    }
    all.push_back(std::move(units));
  }
  return all;
}

}  // namespace

std::vector<residency::LayerExtent> SimulatedUnits::Extents() const {
  std::vector<residency::LayerExtent> extents;
  for (size_t l = 0; l < num_members.size(); ++l) {
    const auto size = static_cast<uint32_t>(group_size);
    extents.push_back({.num_units = CeilDiv(num_members[l], size),
                       .members_per_unit = size,
                       .num_members = num_members[l]});
    if (!frequency.empty()) extents.back().frequency = frequency[l];
  }
  return extents;
}

void SimulatedUnits::MapToken(const TraceReader& reader,
                              const neuron::TraceSets& fired,
                              std::vector<std::vector<uint32_t>>& sets,
                              bool only_fired) const {
  sets = are_experts                     ? reader.experts()
         : are_candidates && !only_fired ? reader.candidates()
                                         : fired;
  if (places.empty()) return;
  for (size_t l = 0; l < sets.size(); ++l) {
    for (uint32_t& neuron : sets[l]) neuron = places[l][neuron];
    std::ranges::sort(sets[l]);
  }
}

double SimulatedUnits::MemberSize(size_t layer_idx) const {
  return member_bytes.empty() ? 1.0 : member_bytes[layer_idx];
}

double SimulatedUnits::size() const {
  double sum = 0.0;
  for (size_t l = 0; l < num_members.size(); ++l) {
    sum += MemberSize(l) * num_members[l];
  }
  return sum;
}

std::vector<uint32_t> SimulatedUnits::CapacitiesOf(double budget) const {
  const double all = size();
  std::vector<uint32_t> capacities;
  for (size_t l = 0; l < num_members.size(); ++l) {
    const double whole = MemberSize(l) * num_members[l];
    const double room =
        pattern.empty() ? budget * (whole / all) : budget * double{pattern[l]};
    const double unit = MemberSize(l) * static_cast<double>(group_size);
    const auto num_units =
        static_cast<double>(CeilDiv<size_t>(num_members[l], group_size));
    capacities.push_back(static_cast<uint32_t>(
        room >= whole || budget >= all
            ? num_units
            : std::min(std::floor(room / unit), num_units)));
  }
  return capacities;
}

std::vector<uint32_t> SimulatedUnits::CapacitiesOfShare(double share) const {
  if (!pattern.empty()) return CapacitiesOf(share * size());
  std::vector<uint32_t> capacities;
  for (const residency::LayerExtent& extent : Extents()) {
    capacities.push_back(
        static_cast<uint32_t>(std::llround(share * extent.num_units)));
  }
  return capacities;
}

Result<std::vector<SimulatedUnits>> DivideTrace(
    const TraceReader& reader, const UnitOptions& options,
    const std::vector<std::vector<float>>& frequency) {
  if (options.by_experts.value_or(false)) {
    TC_ASSIGN_OR_RETURN(SimulatedUnits experts, Experts(reader, frequency));
    return std::vector<SimulatedUnits>{std::move(experts)};
  }
  std::vector<SimulatedUnits> all;
  if (options.split_path.has_value()) {
    TC_ASSIGN_OR_RETURN(SimulatedUnits units,
                        SplitGroups(reader, *options.split_path));
    all.push_back(std::move(units));
  } else {
    TC_ASSIGN_OR_RETURN(all, Groups(reader, options));
  }
  for (SimulatedUnits& units : all) {
    units.frequency = FrequencyOfUnits(units, frequency);
    units.are_candidates = options.by_candidates;
  }
  return all;
}

}  // namespace thermocline::cli
