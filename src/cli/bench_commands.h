// What the ways of `thermocline bench` share: fixed ids, prompts, several
// sequences, `roof`, `op` and `io`.
#ifndef THERMOCLINE_CLI_BENCH_COMMANDS_H_
#define THERMOCLINE_CLI_BENCH_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/bench.h"
#include "bench/prompt_bench.h"
#include "cli/commands.h"
#include "cli/prompt_file.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "model/model.h"
#include "planner/named.h"

namespace thermocline::cli {

struct BenchFlags {
  ModelFlags model;
  SessionFlags session;
  std::vector<int64_t> prompt_lengths = {512};
  std::vector<int64_t> generate_lengths = {128};
  bool prompt_given = false;
  bool generate_given = false;
  std::vector<int64_t> depths = {0};
  std::vector<int64_t> num_sequences;  // -np; empty: one, without saying so
  std::vector<int64_t> threads;
  int64_t repetitions = 5;
  bool profile = false;
  std::optional<std::string> trace_path;    // --time-only
  std::optional<DType> shape_type;          // of it: --as
  std::vector<planner::Method> placements;  // --placement; none: the default
  bench::BenchFormat format = bench::BenchFormat::kMarkdown;
};

// Opens the model for sessions of so many positions, with as many sequences and
// threads as the flags say at most.
Result<std::shared_ptr<const model::Model>> OpenForBench(
    const BenchFlags& flags, ProgressLine& progress,
    const std::function<int64_t(const model::Config& config)>& context_of);

// -t as a list; 0 is as many threads as there are physical cores.
void AddThreadListFlag(CLI::App& app, std::vector<int64_t>& threads,
                       const std::string& fallback);

// -o: md, json, csv.
void AddFormatFlag(CLI::App& app, bench::BenchFormat& format);

// `thermocline bench -f`: prompts of a file and the model's continuation.
struct BenchPromptFlags {
  std::optional<std::string> path;  // -f; without it none of the others
  std::vector<bench::PromptTest> tests;
  std::optional<int64_t> max_prompts;
  std::optional<std::string> tokens_path;
};

// At least as many positions as a test takes of these prompts, whatever the
// model's vocabulary is; `context` at most.
int64_t MostPositions(const std::vector<Prompt>& prompts,
                      const std::vector<bench::PromptTest>& tests,
                      int64_t context);

// -f, -pg, --limit, --tokens-csv.
void AddBenchPromptFlags(CLI::App& app, BenchPromptFlags& flags);

// A usage error if flags are given that say nothing beside -f, or beside its
// absence.
void CheckBenchPromptFlags(const CLI::App& app, const BenchPromptFlags& flags);

// -pg, or what holds without it.
std::vector<bench::PromptTest> TestsOrDefault(const BenchPromptFlags& flags);

// Those of a file's prompts that the flags let through, as ids.
Result<std::vector<bench::BenchPrompt>> EncodePrompts(
    const BenchPromptFlags& flags, const text::Tokenizer& tokenizer,
    const std::vector<Prompt>& prompts);

// Requires flags.path.
Status RunPrompts(const BenchFlags& bench, const BenchPromptFlags& flags);

// The one test of a comparison: prompts of a file as -f and -pg say, or fixed
// ids by -p and -n.
struct BenchTest {
  std::vector<bench::BenchPrompt> prompts;
  std::string source;
  bench::PromptTest test = {.num_prompt = 16, .num_generate = 64};

  int64_t num_positions() const;
};
Result<BenchTest> ReadBenchTest(const BenchFlags& flags,
                                const BenchPromptFlags& prompt_flags,
                                const model::Model& model);

// -np.
void AddSequencesFlag(CLI::App& app, std::vector<int64_t>& num_sequences);

// A usage error if flags are given that say nothing beside -np.
void CheckSequencesFlag(const CLI::App& app, const BenchFlags& flags);

// `thermocline bench -np`: several sequences that generate together, of prompts
// if there is a path. Requires flags.num_sequences.
Status RunSequences(const BenchFlags& flags, const BenchPromptFlags& prompts);

// --time-only, --as, --placement, and those of prefill_device_flags.h.
void AddBenchDeviceFlags(CLI::App& app, BenchFlags& flags);

// A usage error if flags are given that say nothing beside --device.
void CheckBenchDeviceFlags(const CLI::App& app, const BenchFlags& flags,
                           const BenchPromptFlags& prompts);

// `thermocline bench --device`: a row per budget of VRAM. Requires a device.
Status RunOnDevice(const BenchFlags& flags, const BenchPromptFlags& prompts);

// A length that nobody asked for gives way to a small model.
void CapDefault(const char* flag, bool given, int64_t room,
                std::vector<int64_t>& lengths);

// Fills in what the program knows: its version and the CPU.
void CompleteSubject(bench::Subject& subject);

// The line below a Markdown table: how the weights are held.
std::string DescribeBuild(const bench::Subject& subject,
                          const model::Model& model);

// Weights that are held in RAM and a session, together.
Status CheckBenchFits(const model::Model& model,
                      const engine::SessionOptions& session);

// A usage error if flags are given that say nothing beside several budgets.
void CheckBudgetFlags(const CLI::App& app, const BenchFlags& flags,
                      const BenchPromptFlags& prompts);

// `thermocline bench --ram A,B`: a row for each budget. Requires
// flags.session.rams.
Status RunBudgets(const BenchFlags& flags, const BenchPromptFlags& prompts);

// Adds `roof` to the bench command, whose -m it does not need.
void AddBenchRoofCommand(CLI::App& bench, CLI::Option& bench_model,
                         Action& action);

// Adds `op`, likewise.
void AddBenchOpCommand(CLI::App& bench, CLI::Option& bench_model,
                       Action& action);

// Adds `io`, likewise.
void AddBenchIoCommand(CLI::App& bench, CLI::Option& bench_model,
                       Action& action);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_BENCH_COMMANDS_H_
