// `thermocline simulate`: what policies would have had in fast memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/simulate_report.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "os/file.h"
#include "residency/policy_spec.h"

namespace thermocline::cli {
namespace {

struct SimulateFlags {
  SimulateOptions options;
  std::optional<std::string> html_path;
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

bool IsBoundName(const std::string& name) {
  return std::ranges::any_of(
      residency::Bounds(), [&](const auto& info) { return info.name == name; });
}

Status StorePolicies(const std::string& text,
                     std::vector<std::string>& policies) {
  const std::vector<std::string> all = NamesOfAll();
  for (const std::string& spec : residency::SplitSpecs(text)) {
    if (spec == "all") {
      policies.insert(policies.end(), all.begin(), all.end());
      continue;
    }
    const std::string name(residency::NameInSpec(spec));
    if (std::ranges::count(all, name) == 0) {
      return NotOneOf(name, fmt::format("all, {}", fmt::join(all, ", ")));
    }
    if (!IsBoundName(spec)) {
      TC_RETURN_IF_ERROR(residency::CheckPolicySpec(spec));
    }
    policies.push_back(spec);
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

Status StoreRooms(const std::string& text, std::vector<uint64_t>& rooms) {
  TC_ASSIGN_OR_RETURN(rooms, ParseSizes(text));
  if (std::ranges::count(rooms, uint64_t{0}) == 0) return {};
  return Fail(ErrorCode::kInvalidArgument, "there is no room in 0 bytes");
}

Status StoreMisses(const std::string& text,
                   std::optional<residency::Misses>& misses) {
  if (text != "read" && text != "computed") {
    return NotOneOf(text, "read, computed");
  }
  misses =
      text == "read" ? residency::Misses::kRead : residency::Misses::kComputed;
  return {};
}

Status StoreGroupSizes(const std::string& text, std::vector<size_t>& sizes) {
  TC_ASSIGN_OR_RETURN(const auto numbers, ParseIntList(text, 1, 1024));
  sizes.assign(numbers.begin(), numbers.end());
  return {};
}

std::vector<std::string> OutputsOf(const SimulateFlags& flags) {
  std::vector<std::string> outputs;
  if (flags.html_path.has_value()) outputs.push_back(*flags.html_path);
  return outputs;
}

std::vector<std::string> InputsOf(const SimulateOptions& options) {
  std::vector<std::string> inputs = {options.trace_path};
  for (const auto& path :
       {options.counts_path, options.machine_path, options.units.groups_path,
        options.units.split_path}) {
    if (path.has_value()) inputs.push_back(*path);
  }
  return inputs;
}

Status WritePage(const SimulateReport& report, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(path));
  TC_RETURN_IF_ERROR(file->Write(FormatSimulationPage(report)));
  return file->Commit();
}

Status Show(SimulateFlags flags) {
  if (flags.options.policies.empty()) flags.options.policies = NamesOfAll();
  const std::vector<std::string> outputs = OutputsOf(flags);
  TC_RETURN_IF_ERROR(CheckOutputs(outputs, InputsOf(flags.options)));
  ProgressLine progress;
  const auto report = Simulate(flags.options, progress.callback());
  progress.Clear();
  TC_RETURN_IF_ERROR(report);
  if (flags.html_path.has_value()) {
    TC_RETURN_IF_ERROR(WritePage(*report, *flags.html_path));
    WriteStderr(Wrote(*flags.html_path) + "\n");
  }
  return WriteReport(
      flags.json ? FormatSimulationJson(*report) : FormatSimulation(*report),
      outputs);
}

std::string SimulateFooter() {
  std::string footer = "Policies, and behind them bounds, which look ahead:\n";
  for (const auto& info : PoliciesAndBounds()) {
    footer += fmt::format("  {:<14}{}\n", info.name, info.text);
    if (info.parameters.empty()) continue;
    footer += fmt::format("  {:<14}  {}:{}\n", "", info.name, info.parameters);
  }
  return footer +
         "\nhits: resident before the token's own moves, of the bytes that "
         "fired. wasted:\nmoved, and left before it fired again. idle: moved "
         "with a group, and did not\nfire. Token times are predicted from "
         "stated rates, not measured.\n\nExamples:\n"
         "  thermocline trace -m model.gguf -f prompts.txt -o model.trace\n"
         "  thermocline simulate model.trace --counts model.profile "
         "--tier-bytes 200MiB\n"
         "  thermocline simulate model.trace --policy "
         "slow,momentum:adapt=off,belady --misses computed\n"
         "  thermocline simulate run.trace --deterministic --policy slow,lru\n"
         "  thermocline simulate model.trace --groups metis --groups-from "
         "other.trace --group-size 1,8,16";
}

void AddRoomFlags(CLI::App& app, SimulateOptions& options) {
  AddParsed(app, "--tier-bytes", "SIZE,...",
            "Room for so many bytes of neurons or experts, all layers together",
            [&options](const std::string& text) {
              return StoreRooms(text, options.tier_bytes);
            });
  AddParsed(app, "--share", "X,...",
            "Room for these shares of the neurons, 0 to 1 (default "
            "0.1,0.25,0.5; or a run's own, with --deterministic)",
            [&options](const std::string& text) {
              return StoreShares(text, options.shares);
            })
      ->excludes("--tier-bytes");
  AddPath(app, "--counts", options.counts_path, "PROFILE",
          "How often neurons fire: who is resident first (default: the first "
          "of each layer)");
}

void AddUnitFlags(CLI::App& app, UnitOptions& units) {
  AddParsed(app, "--unit", "NAME", "neurons (default), or experts of a mixture",
            [&units](const std::string& text) -> Status {
              if (text != "neurons" && text != "experts") {
                return NotOneOf(text, "neurons, experts");
              }
              units.by_experts = text == "experts";
              return {};
            });
  AddParsed(app, "--group-size", "N,...",
            "Neurons that move together, 1 to 1024; each size is tried "
            "(default 1)",
            [&units](const std::string& text) {
              return StoreGroupSizes(text, units.group_sizes);
            })
      ->excludes("--unit");
  AddParsed(app, "--groups", "HOW",
            "How they are found: greedy, or metis (default: by number)",
            [&units](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(units.grouping, planner::ParseGrouping(text));
              return {};
            })
      ->excludes("--unit")
      ->needs("--group-size");
  AddPath(app, "--groups-from", units.groups_path, "TRACE",
          "Where groups are found: a trace of other text")
      ->needs("--groups");
  AddPath(app, "--split", units.split_path, "FILE",
          "A split file of KAIROX: its groups, and its shares of the layers")
      ->excludes("--unit")
      ->excludes("--group-size")
      ->excludes("--groups");
}

void AddMoveFlags(CLI::App& app, SimulateOptions& options) {
  AddParsed(app, "--misses", "HOW",
            "What becomes of who is missing: read (from storage; default), or "
            "computed (by the host, beside a card)",
            [&options](const std::string& text) {
              return StoreMisses(text, options.misses);
            });
  AddParsed(app, "--moves-per-token-bytes", "SIZE",
            "What may move beside a token's computation (default: nothing "
            "where misses are read, else what the time allows)",
            [&options](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(options.move_bytes_per_token,
                                  ParseSize(text));
              return {};
            });
  AddPath(app, "--machine", options.machine_path, "FILE",
          "Whose rates token times come from: with a device, or of plan "
          "--save-machine (default: stated ones)");
  AddParsed(app, "--dense-bytes", "SIZE",
            "What a token reads besides, for the times (default 0)",
            [&options](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(options.dense_bytes, ParseSize(text));
              return {};
            });
  app.add_flag("--deterministic", options.as_deterministic_run,
               "Move and tell policies as run --ram --deterministic does; of a "
               "trace of run --trace-to with its units, room and prompts")
      ->excludes("--moves-per-token-bytes")
      ->excludes("--misses");
}

}  // namespace

void AddSimulateCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* app = parent.add_subcommand(
      "simulate", "Compares who stays in fast memory, over a trace");
  AddRequiredPath(*app, "TRACE", flags->options.trace_path, "",
                  "A trace that `trace -o` or `run --trace-to` wrote");
  AddParsed(*app, "--policy", "NAME,...",
            "Policies and bounds to run, or all (default all)",
            [flags](const std::string& text) {
              return StorePolicies(text, flags->options.policies);
            });
  AddRoomFlags(*app, flags->options);
  AddUnitFlags(*app, flags->options.units);
  AddMoveFlags(*app, flags->options);
  AddPath(*app, "--html", flags->html_path, "FILE",
          "Also write a page of figures");
  app->add_flag("--json", flags->json, "One JSON object to standard output");
  app->footer(SimulateFooter());
  app->callback(
      [flags, &action] { action = [flags] { return Show(*flags); }; });
}

}  // namespace thermocline::cli
