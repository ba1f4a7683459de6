// The `thermocline` program: one thin file per subcommand.
#ifndef THERMOCLINE_CLI_CLI_H_
#define THERMOCLINE_CLI_CLI_H_

namespace thermocline::cli {

// Parses arguments, runs the subcommand, prints errors. Returns the exit code:
// 0 done, 1 a failure with its message on stderr, 2 wrong usage, 128 + n what
// signal n interrupted (130: Ctrl-C).
int Main(int argc, const char* const* argv);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_CLI_H_
