// Errors of libraries in the words of this program: its flags.
#ifndef THERMOCLINE_CLI_REMEDIES_H_
#define THERMOCLINE_CLI_REMEDIES_H_

#include <string>

#include "base/status.h"

namespace thermocline::cli {

// The error's message, with the flag that mends it if one does:
// "a.txt: needs 9 positions, the context has 3: use -c 9 or more".
std::string Explain(const Error& error);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_REMEDIES_H_
