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

std::string DescribeStream(const engine::Session& session) {
  const engine::WeightStream* stream = session.stream();
  if (stream == nullptr) return "";
  return fmt::format(", {}, the rest from {} ({}{})", stream->Describe(),
                     session.model().file().path(), stream->reader().name(),
                     stream->reader().alignment() > 1 ? ", O_DIRECT" : "");
}

}  // namespace thermocline::cli
