// `thermocline inspect`: what a model file holds and whether it runs.
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/inspect_report.h"
#include "cli/signals.h"
#include "cli/standard_io.h"

namespace thermocline::cli {
namespace {

struct InspectFlags {
  std::string path;
  bool json = false;
};

Result<InspectReport> Inspect(const std::string& path) {
  ExitOnInterrupt exit_on_interrupt;
  return InspectModel(path);
}

Status Run(const InspectFlags& flags) {
  TC_ASSIGN_OR_RETURN(const InspectReport report, Inspect(flags.path));
  return WriteStdout(flags.json ? FormatInspectJson(report)
                                : FormatInspect(report));
}

}  // namespace

void AddInspectCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* app = parent.add_subcommand(
      "inspect", "Shows what a model file holds and whether it runs");
  AddRequiredPath(*app, "MODEL", flags->path, "",
                  "GGUF file; of a split model, the first one");
  app->add_flag("--json", flags->json, "One JSON object instead of text");
  app->footer(
      "A file that can be read but not run is described, with the reason.\n\n"
      "Examples:\n"
      "  thermocline inspect model.gguf\n"
      "  thermocline inspect model.gguf --json | jq .parameters");
  app->callback([flags, &action] { action = [flags] { return Run(*flags); }; });
}

}  // namespace thermocline::cli
