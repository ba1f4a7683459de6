// `thermocline simulate`: what policies would have had in fast memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/parse_text.h"
#include "cli/simulate_report.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"

namespace thermocline::cli {
namespace {

struct SimulateFlags {
  SimulateOptions options;
  bool json = false;
};

std::vector<residency::PolicyInfo> PoliciesAndBounds() {
  std::vector<residency::PolicyInfo> infos(residency::Policies().begin(),
                                           residency::Policies().end());
  infos.insert(infos.end(), residency::Bounds().begin(),
               residency::Bounds().end());
  return infos;
}

std::vector<std::string> NamesOfAll() {
  std::vector<std::string> names;
  for (const auto& info : PoliciesAndBounds()) names.emplace_back(info.name);
  return names;
}

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text + ",");
  for (std::string part; std::getline(stream, part, ',');) {
    parts.push_back(part);
  }
  return parts;
}

Status StorePolicies(const std::string& text,
                     std::vector<std::string>& policies) {
  const std::vector<std::string> all = NamesOfAll();
  for (const std::string& name : SplitAtCommas(text)) {
    if (name == "all") {
      policies.insert(policies.end(), all.begin(), all.end());
    } else if (std::ranges::count(all, name) != 0) {
      policies.push_back(name);
    } else {
      return NotOneOf(name, fmt::format("all, {}", fmt::join(all, ", ")));
    }
  }
  return {};
}

Status StoreShares(const std::string& text, std::vector<double>& shares) {
  for (const std::string& part : SplitAtCommas(text)) {
    TC_ASSIGN_OR_RETURN(const double share, ParseFloat(part, 0.0, 1.0));
    shares.push_back(share);
  }
  return {};
}

Status StoreSimulateFormat(const std::string& text, bool& json) {
  if (text != "md" && text != "json") return NotOneOf(text, "md, json");
  json = text == "json";
  return {};
}

Status Show(SimulateFlags flags) {
  if (flags.options.policies.empty()) flags.options.policies = NamesOfAll();
  if (flags.options.shares.empty()) flags.options.shares = {0.1, 0.25, 0.5};
  ProgressLine progress;
  const auto report = Simulate(flags.options, progress.callback());
  progress.Clear();
  TC_RETURN_IF_ERROR(report);
  return WriteStdout(flags.json ? FormatSimulationJson(*report)
                                : FormatSimulation(*report));
}

std::string SimulateFooter() {
  std::string footer = "Policies, and behind them bounds, which look ahead:\n";
  for (const auto& info : PoliciesAndBounds()) {
    footer += fmt::format("  {:<14}{}\n", info.name, info.text);
  }
  return footer +
         "\nEach miss counts as read, and is offered to the policy. hits: of "
         "the neurons\nthat fired. misses, P50, P90, P99, admitted, wasted: "
         "neurons per token, all\nlayers together; wasted left before they "
         "fired again.\n\nExamples:\n"
         "  thermocline trace -m model.gguf -f prompts.txt -o model.trace\n"
         "  thermocline simulate model.trace --counts model.profile\n"
         "  thermocline simulate model.trace --policy lru,slow,belady --share "
         "0.3";
}

}  // namespace

void AddSimulateCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* app = parent.add_subcommand(
      "simulate", "Compares who stays in fast memory, over a trace");
  AddRequiredPath(*app, "TRACE", flags->options.trace_path, "",
                  "A trace that `trace -o` wrote");
  AddParsed(*app, "--policy", "NAME,...",
            "Policies and bounds to run, or all (default all)",
            [flags](const std::string& text) {
              return StorePolicies(text, flags->options.policies);
            });
  AddParsed(*app, "--share", "X,...",
            "Room for these shares of each layer's neurons, 0 to 1 (default "
            "0.1,0.25,0.5)",
            [flags](const std::string& text) {
              return StoreShares(text, flags->options.shares);
            });
  AddPath(*app, "--counts", flags->options.counts_path, "PROFILE",
          "How often neurons fire: who is resident first (default: the first "
          "of each layer)");
  AddParsed(*app, "-o,--output", "FORMAT",
            "md or json, to standard output (default md)",
            [flags](const std::string& text) {
              return StoreSimulateFormat(text, flags->json);
            });
  app->footer(SimulateFooter());
  app->callback(
      [flags, &action] { action = [flags] { return Show(*flags); }; });
}

}  // namespace thermocline::cli
