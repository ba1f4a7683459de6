#include "cli/cli.h"

int main(int argc, char** argv) { return thermocline::cli::Main(argc, argv); }
