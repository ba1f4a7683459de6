#include "cli/shared_budget.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/left_tensors.h"

namespace thermocline::cli {
namespace {

using engine::SessionOptions;
using engine::WeightMemory;

bool IsHeld(const SessionOptions& session) {
  return session.budget.ram.has_value() && session.budget.holds_ram &&
         session.device == nullptr;
}

SessionOptions WithRam(SessionOptions options, uint64_t ram) {
  options.budget.ram = ram;
  return options;
}

// What is too little for one of them is its error.
void WarnOfLess(uint64_t budget, uint64_t least, size_t num_sessions,
                bool holds_each) {
  if (num_sessions == 1 || !holds_each) return;
  LogWarning(
      "a budget of {} of RAM holds each of {}, but not all: they take {} "
      "together",
      FormatBytes(budget), Plural(num_sessions, "session"),
      FormatLeastBytes(least));
}

// Of weights of which those tensors stay in the file.
WeightMemory WeightsBut(const gguf::File& file, const model::Config& config,
                        const std::vector<std::string>& names) {
  const std::unordered_set<std::string_view> left(names.begin(), names.end());
  WeightMemory weights = {.are_held = !names.empty(),
                          .left = engine::LeftOf(file, config, names)};
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (!left.contains(tensor.name)) weights.num_bytes += tensor.num_bytes;
  }
  return weights;
}

uint64_t BytesOf(const WeightMemory& weights) {
  return weights.num_bytes + weights.bundle_bytes;
}

// What each needs at least, the weights not counted.
Result<std::vector<uint64_t>> LeastBeside(
    const model::Config& config, const WeightMemory& weights,
    std::span<const SessionOptions> sessions) {
  std::vector<uint64_t> least;
  for (const SessionOptions& session : sessions) {
    TC_ASSIGN_OR_RETURN(
        const engine::MemoryPlan plan,
        engine::PlanMemory(config, WithRam(session, 0), weights));
    least.push_back(plan.host.total() - BytesOf(weights));
  }
  return least;
}

// Of all of them, with the weights and what comes beside.
Result<uint64_t> LeastOf(const model::Config& config,
                         const WeightMemory& weights,
                         const ModelSessions& of_model) {
  TC_ASSIGN_OR_RETURN(const std::vector<uint64_t> beside,
                      LeastBeside(config, weights, of_model.sessions));
  uint64_t sum = of_model.beside_bytes + BytesOf(weights);
  for (const uint64_t num_bytes : beside) sum += num_bytes;
  return sum;
}

}  // namespace

const SessionOptions& LargestOf(std::span<const SessionOptions> sessions,
                                const model::Config& config) {
  size_t largest = 0;
  uint64_t most = 0;
  for (size_t i = 0; i < sessions.size(); ++i) {
    // What cannot run says so when it is made.
    const auto plan = engine::PlanMemory(config, sessions[i]);
    if (!plan || plan->host.total() <= most) continue;
    most = plan->host.total();
    largest = i;
  }
  return sessions[largest];
}

Result<BudgetRange> RangeOf(const gguf::File& file, const model::Config& config,
                            const ModelSessions& of_model) {
  BudgetRange range;
  TC_ASSIGN_OR_RETURN(range.whole,
                      LeastOf(config, WeightsBut(file, config, {}), of_model));
  range.least = range.whole;
  const SessionOptions& largest = LargestOf(of_model.sessions, config);
  if (!IsHeld(largest)) return range;
  TC_ASSIGN_OR_RETURN(
      const std::vector<std::string> names,
      engine::TensorsToLeave(file, config, WithRam(largest, 0)));
  TC_ASSIGN_OR_RETURN(
      const uint64_t least,
      LeastOf(config, WeightsBut(file, config, names), of_model));
  range.least = std::min(range.whole, least);
  return range;
}

std::vector<uint64_t> ShareOut(uint64_t budget, uint64_t beside_bytes,
                               std::span<const BudgetRange> ranges) {
  uint64_t whole = beside_bytes, least = beside_bytes;
  for (const BudgetRange& range : ranges) {
    whole += range.whole;
    least += range.least;
  }
  std::vector<uint64_t> shares(ranges.size(), budget);
  if (whole <= budget) return shares;
  if (least > budget) {
    WarnOfLess(budget, least, ranges.size(),
               std::ranges::all_of(ranges, [budget](const BudgetRange& range) {
                 return range.least <= budget;
               }));
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    const BudgetRange& range = ranges[i];
    const uint64_t more = budget - std::min(budget, least);
    const auto part = static_cast<unsigned __int128>(more) *
                      (range.whole - range.least) /
                      std::max<uint64_t>(whole - least, 1);
    shares[i] = std::min(budget, range.least + static_cast<uint64_t>(part));
  }
  return shares;
}

Result<std::vector<std::string>> LeaveForAll(const gguf::File& file,
                                             const model::Config& config,
                                             const ModelSessions& of_model) {
  const SessionOptions& largest = LargestOf(of_model.sessions, config);
  if (!IsHeld(largest)) return std::vector<std::string>();
  const uint64_t budget = *largest.budget.ram;
  const WeightMemory all = WeightsBut(file, config, {});
  TC_ASSIGN_OR_RETURN(const engine::MemoryPlan alone,
                      engine::PlanMemory(config, largest, all));
  const auto leave = [&](uint64_t ram) {
    return engine::TensorsToLeave(file, config, WithRam(largest, ram));
  };
  const auto range = RangeOf(file, config, of_model);
  // One of them cannot run, which it says when it is made.
  if (!range) return leave(budget);
  if (range->whole <= budget) return std::vector<std::string>();
  if (range->least > budget) return leave(0);
  // The largest has what the others leave, and less where their slots need
  // more.
  const uint64_t others = range->whole - alone.host.total();
  uint64_t ram = budget - std::min(budget, others);
  for (;;) {
    TC_ASSIGN_OR_RETURN(std::vector<std::string> names, leave(ram));
    TC_ASSIGN_OR_RETURN(
        const uint64_t least,
        LeastOf(config, WeightsBut(file, config, names), of_model));
    if (least <= budget || ram == 0) return names;
    ram -= std::min(ram, std::max(least - budget, ram / 8 + 1));
  }
}

void DivideBudget(const model::Config& config, const WeightMemory& weights,
                  uint64_t beside_bytes, std::span<SessionOptions> sessions,
                  bool tells) {
  TC_CHECK(!sessions.empty());
  if (!weights.left || !IsHeld(sessions.front())) return;
  const uint64_t budget = *sessions.front().budget.ram;
  const auto least = LeastBeside(config, weights, sessions);
  if (!least) return;
  uint64_t sum = beside_bytes + BytesOf(weights);
  for (const uint64_t num_bytes : *least) sum += num_bytes;
  if (sum > budget && tells) {
    const uint64_t most = BytesOf(weights) + std::ranges::max(*least);
    WarnOfLess(budget, sum, sessions.size(), most <= budget);
  }
  const uint64_t more = (budget - std::min(budget, sum)) / sessions.size();
  for (size_t i = 0; i < sessions.size(); ++i) {
    sessions[i].budget.ram =
        std::min(budget, BytesOf(weights) + (*least)[i] + more);
  }
}

}  // namespace thermocline::cli
