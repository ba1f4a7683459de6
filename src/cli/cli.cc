#include "cli/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/quote.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/run_action.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "kernels/isa.h"

namespace thermocline::cli {
namespace {

constexpr int kExitUsage = 2;

std::string VersionText() {
  return fmt::format("thermocline {} (kernels: {})", TC_VERSION,
                     NamesOf(kernels::SupportedIsas()));
}

// The app that `args` lead to by their leading words: "eval", "logits".
const CLI::App* FindChosenApp(const CLI::App& root,
                              std::span<const std::string> args) {
  const CLI::App* app = &root;
  for (const std::string& arg : args) {
    const CLI::App* next = nullptr;
    for (const CLI::App* sub : app->get_subcommands(
             [&](const CLI::App* s) { return s->get_name() == arg; })) {
      next = sub;
    }
    if (next == nullptr) break;
    app = next;
  }
  return app;
}

bool TakesValue(const CLI::App& app, std::string_view flag) {
  const CLI::Option* option = app.get_option_no_throw(std::string(flag));
  return option != nullptr && option->get_items_expected_max() > 0;
}

// "thermocline eval logits".
std::string PathOf(const CLI::App& app) {
  if (app.get_parent() == nullptr) return app.get_name();
  return PathOf(*app.get_parent()) + " " + app.get_name();
}

// Whether the arguments chose no command, or a group without one of its own.
bool LacksCommand(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  if (!chosen.empty()) return LacksCommand(*chosen.front());
  return !app.get_subcommands([](const CLI::App*) { return true; }).empty();
}

int UsageError(const CLI::App& app, const std::string& message) {
  WriteStderr(
      FormatError(fmt::format("{} (see '{} --help')", message, PathOf(app)),
                  StderrTakesColour()));
  return kExitUsage;
}

// Whether the user named a command that there is not.
bool NamesUnknownCommand(const CLI::App& root) {
  const std::vector<std::string> extras = root.remaining(true);
  return !extras.empty() && !extras.front().starts_with("-") &&
         LacksCommand(root);
}

// Requires that there are arguments that nothing took.
std::string DescribeExtra(const CLI::App& root,
                          std::span<const std::string> typed_args) {
  return fmt::format("unknown {} '{}'",
                     NamesUnknownCommand(root) ? "command" : "argument",
                     Escape(AsTyped(root.remaining(true).front(), typed_args)));
}

// The flag by the name that the user took: "-n", which the parser calls
// "--predict".
std::string NameAsTyped(const CLI::App& app, const std::string& name,
                        std::span<const std::string> typed_args) {
  const CLI::Option* option = app.get_option_no_throw(name);
  if (option == nullptr) return name;
  const auto typed = std::find_if(typed_args.rbegin(), typed_args.rend(),
                                  [option](const std::string& arg) {
                                    return option->check_name(AsParsed(arg));
                                  });
  return typed == typed_args.rend() ? name : *typed;
}

std::string DescribeParseError(const CLI::App& root, const CLI::App& app,
                               std::span<const std::string> typed_args,
                               const CLI::ParseError& error) {
  // What is missing may be there, misspelt: the misspelling is told first.
  if ((dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
       dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) &&
      !root.remaining(true).empty()) {
    return DescribeExtra(root, typed_args);
  }
  std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    // Every flag takes one value or none, so it can only be missing.
    return NameAsTyped(app, text.substr(0, text.find(':')), typed_args) +
           ": its value is missing";
  }
  return text;
}

int ParseAndRun(std::vector<std::string> args) {
  CLI::App root("Runs large language models that do not fit fast memory.",
                "thermocline");
  Action action;
  AddCommands(root, action);
  if (args.empty()) {
    WriteStderr(root.help());
    return kExitUsage;
  }
  const CLI::App* app = FindChosenApp(root, args);
  const std::vector<std::string> typed_args = args;
  args = RewriteArgs(
      args, [app](std::string_view flag) { return TakesValue(*app, flag); });
  std::reverse(args.begin(), args.end());  // the parser takes from the back
  try {
    root.parse(args);
  } catch (const CLI::CallForHelp&) {
    if (NamesUnknownCommand(root)) {
      return UsageError(*app, DescribeExtra(root, typed_args));
    }
    return RunAction(PathOf(*app), [app] { return WriteStdout(app->help()); });
  } catch (const CLI::CallForVersion& version) {
    return RunAction(PathOf(*app), [&] {
      return WriteStdout(std::string(version.what()) + "\n");
    });
  } catch (const CLI::ParseError& error) {
    return UsageError(*app, DescribeParseError(root, *app, typed_args, error));
  }
  if (!action) return UsageError(*app, "a command is missing");
  return RunAction(PathOf(*app), action);
}

}  // namespace

void AddCommands(CLI::App& root, Action& action) {
  root.formatter(MakeHelpFormatter());
  root.set_help_flag("-h,--help", "This page");
  root.set_version_flag("--version", VersionText(), "The version");
  root.footer(
      "Examples:\n"
      "  thermocline run -m model.gguf -p \"Once upon a time\" -n 128\n"
      "  thermocline inspect model.gguf\n"
      "  thermocline bench -m model.gguf -t 1,2\n"
      "\n'thermocline COMMAND --help' shows a command's flags and examples.");
  AddRunCommand(root, action);
  AddInspectCommand(root, action);
  AddConvertCommand(root, action);
  AddQuantizeCommand(root, action);
  AddTokenizeCommand(root, action);
  AddTemplateCommand(root, action);
  AddProfileCommand(root, action);
  AddTraceCommand(root, action);
  AddSimulateCommand(root, action);
  AddPlanCommand(root, action);
  AddTrainCommand(root, action);
  AddPrepareCommand(root, action);
  AddEvalCommand(root, action);
  AddBenchCommand(root, action);
  AddSynthCommand(root, action);
  AddDevicesCommand(root, action);
  AddNpuCommand(root, action);
  for (CLI::App* command : root.get_subcommands({})) {
    command->group("Commands");
  }
  AddNpuCompileCommand(root, action);
}

int Main(int argc, const char* const* argv) {
  EnsureStandardStreams();
  InstallSignalHandlers();
  SetLogSink([](LogLevel level, std::string_view line) {
    WriteStderr(level == LogLevel::kWarning
                    ? FormatWarning(line, StderrTakesColour())
                    : fmt::format("thermocline: {}\n", WithoutControls(line)));
  });
  return ParseAndRun({argv + std::min(argc, 1), argv + argc});
}

}  // namespace thermocline::cli
