#include "engine/stream/unit_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "engine/stream/record_stream.h"
#include "model/firing_shares.h"
#include "model/profile_file.h"
#include "neuron/record.h"

namespace thermocline::engine {
namespace {

// Of the neurons of an expert, what papers say of models of the ReLU family,
// where nobody has counted.
constexpr double kFiringUncounted = 0.15;
// Candidates of a trained predictor for each that fires.
constexpr double kNamedPerFired = 1.6;

bool HaveWholeNeurons(const model::Config& config) {
  for (size_t i = 0; i < config.records.size(); ++i) {
    if (config.layers[i].ffn.gated && !config.records[i].gate) return false;
  }
  return !config.records.empty();
}

bool ArePadded(const model::Config& config) {
  return std::ranges::all_of(
      config.records, [](const neuron::RecordLayout& layout) {
        return layout.stride % neuron::kStorageAlignment == 0;
      });
}

Error CannotBe(StreamUnit asked, StreamUnit left) {
  const bool lacks_records =
      asked == StreamUnit::kRecords && left == StreamUnit::kExperts;
  return {ErrorCode::kUnsupported,
          fmt::format("{} cannot come from the file: {}", NameOf(asked),
                      lacks_records
                          ? "it has no records of experts with their gates, "
                            "as prepared for storage"
                          : fmt::format("what of this model does not fit "
                                        "memory comes as {}",
                                        NameOf(left)))};
}

// The share of what is used that the hottest `capacity` units are.
double HotShare(std::vector<float> counts, size_t num_units, size_t capacity) {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (capacity >= num_units) return 1.0;
  if (sum <= 0.0) {
    return static_cast<double>(capacity) / static_cast<double>(num_units);
  }
  const auto end = counts.begin() + static_cast<std::ptrdiff_t>(capacity);
  std::ranges::nth_element(counts, end, std::greater<>());
  return std::accumulate(counts.begin(), end, 0.0) / sum;
}

std::vector<float> SumsOf(const std::vector<float>& counts, size_t width) {
  std::vector<float> sums(counts.size() / width, 0.0f);
  for (size_t i = 0; i < sums.size() * width; ++i) sums[i / width] += counts[i];
  return sums;
}

// Shares of what a layer's tokens use that are not in its slots.
struct Missed {
  double fired = 0.0;   // of neurons that fire
  double tested = 0.0;  // of all neurons of the experts in use
  double experts = 0.0;
};

Missed MissedOf(const std::vector<float>& counts, const model::FfnSpec& ffn,
                uint32_t record_slots, uint32_t expert_slots) {
  const std::vector<float> of_experts = SumsOf(counts, ffn.width);
  std::vector<float> alike(counts.size());
  for (size_t i = 0; i < alike.size(); ++i)
    alike[i] = of_experts[i / ffn.width];
  const size_t num_neurons = NumNeurons(ffn);
  return {.fired = 1.0 - HotShare(counts, num_neurons, record_slots),
          .tested = 1.0 - HotShare(alike, num_neurons, record_slots),
          .experts = 1.0 - HotShare(of_experts, ffn.num_experts, expert_slots)};
}

// Of the neurons of an expert that is used, how many fire.
double FiringOf(const model::Model& model) {
  const auto profile = model::ReadProfile(model.file());
  const double density = profile ? profile->profile.density() : 0.0;
  if (density <= 0.0) return kFiringUncounted;
  const model::FfnSpec& ffn = model::CommonFfn(model.config());
  return std::min(1.0, density * static_cast<double>(ffn.num_experts) /
                           static_cast<double>(ffn.num_experts_used));
}

// Of one record of an expert of which `missed` are read: by itself or with
// neighbours, or the gate first.
double TimeOfRecord(const ReadPlan& plan, const neuron::RecordLayout& layout,
                    double missed, double open_share) {
  const double num_near = 1.0 + std::floor(static_cast<double>(plan.gap_bytes) /
                                           static_cast<double>(layout.stride));
  const double single = std::pow(1.0 - missed, num_near);
  const double whole = single + (1.0 - single) * plan.bytes_cost;
  if (FirstBytes(layout, plan.part_bytes) == 0) return whole;
  return std::min(whole, plan.first_cost + open_share * plan.rest_cost);
}

}  // namespace

Result<UnitsThatMay> UnitsFor(const model::Config& config,
                              const UnitRequest& request) {
  const StreamUnit left = request.left;
  if (left != StreamUnit::kExperts) {
    if (request.asked.value_or(left) != left) {
      return tl::unexpected(CannotBe(*request.asked, left));
    }
    return UnitsThatMay{.records = left == StreamUnit::kRecords,
                        .layers = left == StreamUnit::kLayers};
  }
  const bool may_be_records = HaveWholeNeurons(config);
  if (request.asked) {
    const bool as_records = *request.asked == StreamUnit::kRecords;
    if (*request.asked == StreamUnit::kLayers ||
        (as_records && !may_be_records)) {
      return tl::unexpected(CannotBe(*request.asked, left));
    }
    return UnitsThatMay{.records = as_records, .experts = !as_records};
  }
  if (!may_be_records) return UnitsThatMay{.experts = true};
  // Others than ours are ways to read records.
  if (request.mode != StorageMode::kCluster) {
    return UnitsThatMay{.records = true};
  }
  return UnitsThatMay{
      .records = request.ffn != FfnMode::kDense && ArePadded(config),
      .experts = true};
}

ReadPlan PlanToChooseBy(const StreamOptions& options,
                        const ReadPlan& measured) {
  return options.deterministic ? options.reads.value_or(ReadPlan()) : measured;
}

UnitTimes TimesOfUnits(const model::Model& model, const StreamOptions& options,
                       const ReadPlan& plan) {
  const model::Config& config = model.config();
  const double firing = FiringOf(model);
  const double named =
      options.has_candidates ? std::min(1.0, kNamedPerFired * firing) : 1.0;
  const double open_share = std::min(1.0, firing / named);
  UnitTimes times;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const model::FfnSpec& ffn = config.layers[i].ffn;
    if (ffn.num_experts == 0) continue;
    const Missed missed =
        MissedOf(model::FiringShares(model, i), ffn, options.arena.resident[i],
                 options.blocks.resident[i]);
    // Who is named and rests may be anybody.
    const double records_missed =
        options.has_candidates
            ? open_share * missed.fired + (1.0 - open_share) * missed.tested
            : missed.tested;
    const double used =  // neurons of the experts that are
        static_cast<double>(ffn.num_experts_used * ffn.width);
    times.records += used * named * records_missed *
                     TimeOfRecord(plan, config.records[i],
                                  named * records_missed, open_share);
    times.experts += used * missed.experts * plan.bytes_cost;
  }
  return times;
}

std::string UnitTimes::Describe() const {
  const double share = records / std::max(experts, 1e-9);
  return by_records()
             ? fmt::format(
                   "neurons, whose reads take {:.2f} of the time of whole "
                   "experts'",
                   share)
             : fmt::format(
                   "whole experts, since neurons' reads would take {:.2f} of "
                   "the time",
                   share);
}

}  // namespace thermocline::engine
