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

std::string ListStorageModes() {
  std::vector<std::string_view> names;
  for (const engine::StorageModeInfo& info : engine::StorageModes()) {
    names.push_back(info.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void AddBalanceFlags(CLI::App& app, std::string& policy, bool& deterministic) {
  AddParsed(
      app, "--balance", "auto|NAME|off",
      fmt::format("Which neurons or experts stay in memory where --ram holds "
                  "but some, and who comes for whom: {}, with parameters as "
                  "NAME:KEY=VALUE,...; off: nobody moves (default auto: {})",
                  ListPolicies(), engine::PolicyOf("")),
      [&policy](const std::string& text) -> Status {
        if (text == "auto" || text == "off") {
          policy = text == "off" ? "static" : "";
          return {};
        }
        TC_RETURN_IF_ERROR(residency::CheckPolicySpec(text));
        policy = text;
        return {};
      });
  app.add_flag("--deterministic", deterministic,
               "The same tokens, the same neurons or experts in memory after "
               "each: as many moves, whatever the drive's speed");
}

void AddUnitFlag(CLI::App& app, std::optional<engine::StreamUnit>& unit) {
  AddParsed(app, "--unit", "NAME",
            "What of a mixture that --ram does not hold comes as one: experts, "
            "or records of their neurons (default: what is faster)",
            [&unit](const std::string& text) -> Status {
              using engine::StreamUnit;
              for (const StreamUnit known :
                   {StreamUnit::kRecords, StreamUnit::kExperts}) {
                if (text != engine::NameOf(known)) continue;
                unit = known;
                return {};
              }
              return NotOneOf(text, "records, experts");
            });
}

Result<std::vector<engine::StorageMode>> ParseStorageModes(
    const std::string& text, bool takes_many) {
  std::vector<engine::StorageMode> modes;
  if (takes_many && text == "all") {
    for (const engine::StorageModeInfo& info : engine::StorageModes()) {
      modes.push_back(info.mode);
    }
    return modes;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end =
        takes_many ? std::min(text.find(',', begin), text.size()) : text.size();
    const std::string name = text.substr(begin, end - begin);
    const auto mode = engine::ParseStorageMode(name);
    if (!mode) {
      return NotOneOf(name, (takes_many ? "all, " : "") + ListStorageModes());
    }
    if (std::ranges::find(modes, *mode) == modes.end()) modes.push_back(*mode);
    begin = end + 1;
  }
  return modes;
}

void AddStorageFlag(CLI::App& app, std::vector<engine::StorageMode>& modes,
                    bool takes_many) {
  AddParsed(app, "--storage", takes_many ? "MODE,..." : "MODE",
            fmt::format("How neurons that --ram does not hold are read: {}{} "
                        "(default {})",
                        takes_many ? "all, or " : "", ListStorageModes(),
                        engine::NameOf(modes.front())),
            [&modes, takes_many](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(modes, ParseStorageModes(text, takes_many));
              return {};
            });
}

std::string DescribeBudget(const engine::Session& session,
                           const engine::SessionOptions& options) {
  if (!options.budget.ram.has_value()) return "";
  return fmt::format(", RAM {} of {}{} ({})",
                     FormatBytes(session.memory().host.total()),
                     FormatBytes(*options.budget.ram),
                     options.budget.holds_ram ? "" : ", which nobody holds",
                     engine::Describe(session.memory()));
}

std::string DescribeStream(const engine::Session& session) {
  const engine::WeightStream* stream = session.stream();
  if (stream == nullptr) return "";
  const std::string reason =
      stream->reason().empty() ? "" : fmt::format(": {}", stream->reason());
  return fmt::format(", {}{}, the rest from {} ({})", stream->Describe(),
                     reason, session.model().file().path(),
                     stream->reader().Describe());
}

}  // namespace thermocline::cli
