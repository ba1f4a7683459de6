// The commands under `thermocline eval`, each in a file of its own.
#ifndef THERMOCLINE_CLI_EVAL_COMMANDS_H_
#define THERMOCLINE_CLI_EVAL_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/session.h"
#include "os/memory.h"

namespace thermocline::cli {

void AddEvalLogitsCommand(CLI::App& parent, Action& action);
void AddEvalPplCommand(CLI::App& parent, Action& action);
void AddEvalKlCommand(CLI::App& parent, Action& action);
void AddEvalSparsityCommand(CLI::App& parent, Action& action);
void AddEvalMcCommand(CLI::App& parent, Action& action);

// `options` in each of `modes`, which are compared: the predictor asked for is
// for those that take one, fast and auto. If none does all keep it, and the
// engine refuses it by name.
std::vector<engine::SessionOptions> InModes(
    const engine::SessionOptions& options,
    std::span<const engine::FfnMode> modes);

// Gives sessions that compute in turns the same threads, as many as the first
// asks for.
Status ShareThreads(std::span<engine::SessionOptions> sessions);

// Tells on standard error what runs: "model: a.gguf (3.56 GiB): dense, ...".
void PrintSession(std::string_view role, const engine::Session& session,
                  const engine::SessionOptions& options);

// Of sessions of one model that are in memory together: that they fit, as
// CheckSessionsFit says of `needs`, each's memory without its weights; where a
// part of the model stays in its file each gets its part of the budget instead.
Status FitSessions(const model::Model& model, uint64_t logits_bytes,
                   std::span<const engine::MemoryPlan> needs,
                   std::span<engine::SessionOptions> sessions);

// Tells on standard error what sessions that are in memory together need, with
// `logits_bytes` for their logits and `weight_bytes` of weights that count
// (WeightsThatCount). kResourceExhausted: more than `ram_bytes`. Not asked of a
// model of which a part stays in its file: its slots take what a budget leaves.
Status CheckSessionsFit(std::span<const engine::MemoryPlan> needs,
                        uint64_t logits_bytes, uint64_t weight_bytes,
                        uint64_t ram_bytes);

// Of the model in a check against `budget`: those that are held in RAM, or with
// a budget all.
uint64_t WeightsThatCount(const model::Model& model,
                          const engine::Budget& budget);

// What that check compares with: the budget, or the machine's RAM.
uint64_t RamFor(const engine::Budget& budget);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_EVAL_COMMANDS_H_
