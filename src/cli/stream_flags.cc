#include "cli/stream_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cli/flags.h"
#include "cli/parse_text.h"
#include "engine/runtime.h"
#include "residency/policy.h"

namespace thermocline::cli {
namespace {

std::string ListPolicies() {
  std::vector<std::string_view> names;
  for (const residency::PolicyInfo& policy : residency::Policies()) {
    names.push_back(policy.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool IsPolicy(std::string_view name) {
  const auto policies = residency::Policies();
  return std::ranges::find(policies, name, &residency::PolicyInfo::name) !=
         policies.end();
}

}  // namespace

void AddPolicyFlag(CLI::App& app, std::string& policy) {
  AddParsed(app, "--policy", "NAME",
            fmt::format("Which neurons stay in memory where --ram holds but "
                        "some: {} (default {})",
                        ListPolicies(), engine::PolicyOf("")),
            [&policy](const std::string& text) -> Status {
              if (!IsPolicy(text)) return NotOneOf(text, ListPolicies());
              policy = text;
              return {};
            });
}

Result<bool> LeavesRecords(const engine::SessionOptions& options,
                           const model::Config& config, uint64_t num_bytes) {
  const bool is_mixture = std::ranges::any_of(
      config.layers,
      [](const model::LayerSpec& layer) { return layer.ffn.num_experts > 0; });
  if (!options.budget.ram || is_mixture) return false;
  TC_ASSIGN_OR_RETURN(
      const engine::MemoryPlan plan,
      engine::PlanMemory(config, options, {.num_bytes = num_bytes}));
  return plan.host.total() > *options.budget.ram;
}

std::string DescribeStream(const engine::Session& session,
                           const engine::SessionOptions& options) {
  const engine::RecordStream* stream = session.stream();
  if (stream == nullptr) return "";
  const engine::ArenaPlan& arena = stream->arena().plan();
  uint64_t num_neurons = 0;
  for (const model::LayerSpec& layer : session.model().config().layers) {
    num_neurons += layer.ffn.width;
  }
  const uint64_t num_resident = arena.num_slots() - arena.pass_slots;
  return fmt::format(
      ", FFN records {:.0f} % in {} of slots ({}), the rest from {} ({}{})",
      100.0 * static_cast<double>(num_resident) /
          static_cast<double>(num_neurons),
      FormatBytes(arena.num_bytes()), engine::PolicyOf(options.policy),
      session.model().file().path(), stream->reader().name(),
      stream->reader().alignment() > 1 ? ", O_DIRECT" : "");
}

}  // namespace thermocline::cli
