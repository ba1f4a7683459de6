// The subcommands. Each function but the last adds one to `parent`: its flags,
// its help, and a callback that sets `action` when the subcommand was chosen.
#ifndef THERMOCLINE_CLI_COMMANDS_H_
#define THERMOCLINE_CLI_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace thermocline::cli {

// What to do after parsing. kCancelled: stopped on request, without a message.
using Action = std::function<Status()>;

void AddRunCommand(CLI::App& parent, Action& action);
void AddInspectCommand(CLI::App& parent, Action& action);
void AddConvertCommand(CLI::App& parent, Action& action);
void AddQuantizeCommand(CLI::App& parent, Action& action);
void AddTokenizeCommand(CLI::App& parent, Action& action);
void AddTemplateCommand(CLI::App& parent, Action& action);
void AddProfileCommand(CLI::App& parent, Action& action);
void AddTraceCommand(CLI::App& parent, Action& action);
void AddSimulateCommand(CLI::App& parent, Action& action);
void AddTrainCommand(CLI::App& parent, Action& action);
void AddPrepareCommand(CLI::App& parent, Action& action);
void AddEvalCommand(CLI::App& parent, Action& action);
void AddBenchCommand(CLI::App& parent, Action& action);
void AddSynthCommand(CLI::App& parent, Action& action);
void AddDevicesCommand(CLI::App& parent, Action& action);
void AddPlanCommand(CLI::App& parent, Action& action);
void AddNpuCommand(CLI::App& parent, Action& action);
// Not in the help: npu::OpenVinoOptions::child_command.
void AddNpuCompileCommand(CLI::App& parent, Action& action);
// This program with it; empty where the system does not say which that is.
std::vector<std::string> NpuCompileCommand();

// All of them to `root`, the program, with its own flags and look.
void AddCommands(CLI::App& root, Action& action);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_COMMANDS_H_
