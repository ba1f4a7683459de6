// Where the program starts. Main (cli.cc) reads the flags; each subcommand has
// a file, X_command.cc, whose AddXCommand says which flags `thermocline X`
// takes and what it does.
#include "cli/cli.h"

int main(int argc, char** argv) { return thermocline::cli::Main(argc, argv); }
