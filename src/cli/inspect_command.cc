// `thermocline inspect`: what a model file holds and whether it runs.
#include <memory>
#include <string>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "inspect/report.h"
#include "os/file.h"

namespace thermocline::cli {
namespace {

struct InspectFlags {
  std::string path;
  std::optional<std::string> html_path;
  bool json = false;
};

Result<inspect::InspectReport> Inspect(const std::string& path) {
  ExitOnInterrupt exit_on_interrupt;
  return inspect::InspectModel(path);
}

Status WritePage(const inspect::InspectReport& report,
                 const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(path));
  TC_RETURN_IF_ERROR(file->Write(inspect::FormatInspectHtml(report)));
  return file->Commit();
}

Status Run(const InspectFlags& flags) {
  if (flags.html_path.has_value()) {
    TC_RETURN_IF_ERROR(
        RefuseToReplaceInput(*flags.html_path, ModelFiles(flags.path)));
  }
  TC_ASSIGN_OR_RETURN(const inspect::InspectReport report, Inspect(flags.path));
  if (flags.html_path.has_value()) {
    TC_RETURN_IF_ERROR(WritePage(report, *flags.html_path));
  }
  if (!flags.html_path.has_value()) {
    return WriteStdout(flags.json ? inspect::FormatInspectJson(report)
                                  : inspect::FormatInspect(report));
  }
  return WriteReport(flags.json ? inspect::FormatInspectJson(report)
                                : Wrote(*flags.html_path) + "\n",
                     {*flags.html_path});
}

}  // namespace

void AddInspectCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* app = parent.add_subcommand(
      "inspect", "Shows what a model file holds and whether it runs");
  AddRequiredPath(*app, "MODEL", flags->path, "",
                  "GGUF file; of a split model, the first one")
      ->required(false);
  AddRequiredPath(*app, "-m,--model", flags->path, "FILE", "The same by a flag")
      ->required(false);
  app->add_flag("--json", flags->json, "One JSON object instead of text");
  AddPath(*app, "--html", flags->html_path, "FILE",
          "Write a page that draws the model, for any browser");
  app->footer(
      "A file that can be read but not run is described, with the reason.\n\n"
      "Examples:\n"
      "  thermocline inspect model.gguf\n"
      "  thermocline inspect model.gguf --html model.html\n"
      "  thermocline inspect model.gguf --json | jq .parameters");
  app->callback([flags, app, &action] {
    CheckOneModel(*app);
    action = [flags] { return Run(*flags); };
  });
}

}  // namespace thermocline::cli
