#include "engine/stream/read_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace thermocline::engine {
namespace {

// The deepest that gives so much of the best: what the device does not have yet
// waits until a thread that computes comes by. Of llama-1b's records, half of
// them in memory, 32 gave 0.85 of the tokens of 64, at equal rates.
constexpr double kEnoughOfBest = 0.9;
// A longer read may give more bytes, but pieces wait for all of it.
constexpr size_t kLongestMost = 256 << 10;
// The bytes of a gap take memory's time too: 28 KiB gave less than 12.
constexpr size_t kGapMost = 16 << 10;
// Of a read's time, what a read of the longest may spend on being one.
constexpr double kOverheadShare = 0.2;
// Two reads for one have to save more than noise.
constexpr double kClearly = 0.95;

// Seconds of a read, where many are under way: per_read + bytes * per_byte.
struct ReadCost {
  double per_read = 0.0;
  double per_byte = 0.0;
  double Of(size_t num_bytes) const {
    return per_read + per_byte * static_cast<double>(num_bytes);
  }
};

const ReadRate* Find(const std::vector<ReadRate>& rates, size_t num_bytes,
                     size_t depth) {
  const auto found = std::ranges::find_if(rates, [&](const ReadRate& rate) {
    return rate.num_bytes == num_bytes && rate.depth == depth &&
           rate.reads_per_s > 0.0;
  });
  return found == rates.end() ? nullptr : &*found;
}

// 0: no rates of that size.
size_t DepthFor(const std::vector<ReadRate>& rates, size_t num_bytes) {
  double best = 0.0;
  for (const ReadRate& rate : rates) {
    if (rate.num_bytes == num_bytes) best = std::max(best, rate.reads_per_s);
  }
  size_t depth = 0;
  for (const ReadRate& rate : rates) {
    if (rate.num_bytes != num_bytes || best <= 0.0 ||
        rate.reads_per_s < kEnoughOfBest * best) {
      continue;
    }
    depth = std::max(depth, rate.depth);
  }
  return depth;
}

size_t RoundDown(double num_bytes, size_t multiple) {
  return static_cast<size_t>(num_bytes) / multiple * multiple;
}

// Nothing where long reads take no longer than short ones, or shorter by noise:
// then bytes are free up to the longest.
ReadCost CostOf(const ReadRate& least, const ReadRate& most) {
  const double seconds = 1.0 / least.reads_per_s;
  const double per_byte = (1.0 / most.reads_per_s - seconds) /
                          static_cast<double>(most.num_bytes - least.num_bytes);
  if (per_byte <= 0.0) return {seconds, 0.0};
  const double of_bytes = per_byte * static_cast<double>(least.num_bytes);
  return {std::max(seconds - of_bytes, 0.0), per_byte};
}

void SetCosts(const std::vector<ReadRate>& rates, const ReadCost& cost,
              const neuron::RecordLayout& layout, ReadPlan& plan) {
  const size_t first_bytes = FirstBytes(layout, plan.part_bytes);
  if (first_bytes == 0) return;
  // Of what was measured itself, where it was: a device may like some sizes.
  const auto seconds = [&](size_t num_bytes) {
    const ReadRate* rate = Find(rates, num_bytes, plan.depth);
    return rate != nullptr ? 1.0 / rate->reads_per_s : cost.Of(num_bytes);
  };
  const double whole = seconds(layout.stride);
  plan.first_cost = seconds(first_bytes) / whole;
  plan.rest_cost = seconds(layout.stride - first_bytes) / whole;
  plan.bytes_cost = cost.per_byte * static_cast<double>(layout.stride) / whole;
}

}  // namespace

size_t FirstBytes(const neuron::RecordLayout& layout, size_t part_bytes) {
  if (!layout.gate || layout.stride % part_bytes != 0) return 0;
  const size_t num_bytes = RoundUp(layout.up_offset(), part_bytes);
  return num_bytes < layout.stride ? num_bytes : 0;
}

ReadPlan PlanReads(const std::vector<ReadRate>& rates,
                   const neuron::RecordLayout& layout) {
  ReadPlan plan;
  if (rates.empty()) return plan;
  const auto [least_it, most_it] =
      std::ranges::minmax_element(rates, {}, &ReadRate::num_bytes);
  const size_t depth = DepthFor(rates, least_it->num_bytes);
  const ReadRate* least = Find(rates, least_it->num_bytes, depth);
  const ReadRate* most = Find(rates, most_it->num_bytes, depth);
  if (least == nullptr || most == nullptr ||
      most->num_bytes == least->num_bytes) {
    return plan;
  }
  plan.depth = depth;
  plan.most_early = 16 * depth;
  const ReadCost cost = CostOf(*least, *most);
  const double even =  // bytes that take as long as a read more
      cost.per_byte > 0.0 ? cost.per_read / cost.per_byte : 1e9;
  plan.gap_bytes =
      RoundDown(std::min(even, static_cast<double>(kGapMost)), plan.part_bytes);
  plan.longest_bytes = std::clamp(
      RoundDown(
          std::min(even / kOverheadShare, static_cast<double>(kLongestMost)),
          plan.part_bytes),
      std::max(layout.stride, plan.part_bytes),
      std::max(layout.stride, kLongestMost));
  SetCosts(rates, cost, layout, plan);
  return plan;
}

double GateFirstBelow(const ReadPlan& plan, double single_share) {
  const double whole = single_share + (1.0 - single_share) * plan.bytes_cost;
  return (kClearly * whole - plan.first_cost) / plan.rest_cost;
}

std::string Describe(const ReadPlan& plan, const neuron::RecordLayout& layout) {
  const double below = std::min(GateFirstBelow(plan, 1.0), 1.0);
  const bool gate_first =
      FirstBytes(layout, plan.part_bytes) > 0 && below > 0.0;
  return fmt::format(
      "{}, gaps to {} KiB, depth {}",
      gate_first
          ? fmt::format("gates first where under {:.0f} % fire", 100.0 * below)
          : "whole records",
      plan.gap_bytes >> 10, plan.depth);
}

}  // namespace thermocline::engine
