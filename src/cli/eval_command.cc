// `thermocline eval`: the group, and what its commands share.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/math.h"
#include "base/quote.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/eval_commands.h"
#include "cli/session_flags.h"
#include "cli/shared_budget.h"
#include "cli/standard_io.h"

namespace thermocline::cli {

std::vector<engine::SessionOptions> InModes(
    const engine::SessionOptions& options,
    std::span<const engine::FfnMode> modes) {
  const bool is_asked = std::ranges::any_of(modes, AsksPredictor);
  std::vector<engine::SessionOptions> out;
  for (const engine::FfnMode mode : modes) {
    engine::SessionOptions& in_mode = out.emplace_back(options);
    in_mode.ffn = mode;
    if (is_asked && !AsksPredictor(mode)) {
      in_mode.predictor = engine::PredictorChoice::kAuto;
    }
  }
  return out;
}

Status ShareThreads(std::span<engine::SessionOptions> sessions) {
  TC_ASSIGN_OR_RETURN(const auto threads,
                      engine::MakeThreads(sessions.front()));
  for (engine::SessionOptions& session : sessions) session.threads = threads;
  return {};
}

void PrintSession(std::string_view role, const engine::Session& session,
                  const engine::SessionOptions& options) {
  const gguf::File& file = session.model().file();
  WriteStderr(fmt::format(
      "{}: {} ({}): {}\n", role, WithoutControls(file.path()),
      FormatBytes(file.num_file_bytes()), DescribeMode(session, options)));
}

Status CheckSessionsFit(std::span<const engine::MemoryPlan> needs,
                        uint64_t logits_bytes, uint64_t weight_bytes,
                        uint64_t ram_bytes) {
  const std::string what =
      fmt::format("{}{}", Plural(needs.size(), "session"),
                  weight_bytes == 0 ? " and their logits"
                                    : ", their logits and the weights");
  uint64_t sum = CheckedAdd(logits_bytes, weight_bytes)
                     .value_or(std::numeric_limits<uint64_t>::max());
  for (const engine::MemoryPlan& need : needs) {
    sum = CheckedAdd(sum, need.anonymous())
              .value_or(std::numeric_limits<uint64_t>::max());
  }
  WriteStderr(fmt::format("memory of {}: {}\n", what, FormatBytes(sum)));
  if (sum <= ram_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "{} need {}, more than the {} of RAM that there are: use a "
              "smaller -c or -b",
              what, FormatBytes(sum), FormatBytes(ram_bytes));
}

Status FitSessions(const model::Model& model, uint64_t logits_bytes,
                   std::span<const engine::MemoryPlan> needs,
                   std::span<engine::SessionOptions> sessions) {
  if (model.is_partly_left()) {
    DivideBudget(model.config(), engine::WeightMemory::Of(model), logits_bytes,
                 sessions, /*tells=*/true);
    return {};
  }
  const engine::Budget& budget = sessions.front().budget;
  return CheckSessionsFit(needs, logits_bytes, WeightsThatCount(model, budget),
                          RamFor(budget));
}

uint64_t WeightsThatCount(const model::Model& model,
                          const engine::Budget& budget) {
  const engine::WeightMemory weights = engine::WeightMemory::Of(model);
  if (budget.ram.has_value() && budget.holds_ram)
    return weights.num_bytes + weights.bundle_bytes;
  return model.file().num_held_bytes();
}

uint64_t RamFor(const engine::Budget& budget) {
  const uint64_t all = os::ReadMemoryInfo().total_bytes;
  return budget.holds_ram ? budget.ram.value_or(all) : all;
}

void AddEvalCommand(CLI::App& parent, Action& action) {
  CLI::App* app =
      parent.add_subcommand("eval", "Measures how well a model computes");
  app->footer(
      "Examples:\n"
      "  thermocline eval ppl -m model.gguf -f text.txt -c 512\n"
      "  thermocline eval mc -m model.gguf -f arc_easy.jsonl\n"
      "  thermocline eval kl -m q4_0.gguf --base f16.gguf -f text.txt\n"
      "  thermocline eval sparsity -m sparse.gguf -f text.txt\n"
      "  thermocline eval logits -m model.gguf --tokens 1,15,7 -o out.f32");
  AddEvalLogitsCommand(*app, action);
  AddEvalPplCommand(*app, action);
  AddEvalKlCommand(*app, action);
  AddEvalSparsityCommand(*app, action);
  AddEvalMcCommand(*app, action);
}

}  // namespace thermocline::cli
