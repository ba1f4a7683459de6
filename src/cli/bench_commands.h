// What `thermocline bench` and `thermocline bench roof` share.
#ifndef THERMOCLINE_CLI_BENCH_COMMANDS_H_
#define THERMOCLINE_CLI_BENCH_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <vector>

#include "bench/bench.h"
#include "cli/commands.h"

namespace thermocline::cli {

// -t as a list; 0 is as many threads as there are physical cores.
void AddThreadListFlag(CLI::App& app, std::vector<int64_t>& threads,
                       const std::string& fallback);

// -o: md, json, csv.
void AddFormatFlag(CLI::App& app, bench::BenchFormat& format);

// Adds `roof` to the bench command, whose -m it does not need.
void AddBenchRoofCommand(CLI::App& bench, CLI::Option& bench_model,
                         Action& action);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_BENCH_COMMANDS_H_
