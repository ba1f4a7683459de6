// From what a command did to the program's exit code.
#ifndef THERMOCLINE_CLI_RUN_ACTION_H_
#define THERMOCLINE_CLI_RUN_ACTION_H_

#include <string>

#include "cli/commands.h"

namespace thermocline::cli {

// Runs `action` and prints its error, in one line on stderr. Returns 0, 1 on an
// error, and where it was stopped on request, 128 and the signal, or 0 if there
// was none; a file that was written over while `action` had it mapped is an
// error, behind another a warning. What it throws is an error too: memory that
// is not to be had names `command`, "thermocline quantize".
int RunAction(const std::string& command, const Action& action);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_RUN_ACTION_H_
