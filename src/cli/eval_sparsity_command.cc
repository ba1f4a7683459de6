// `thermocline eval sparsity`: what a sparse mode misses and saves.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>

#include "cli/eval_commands.h"
#include "cli/eval_text_flags.h"
#include "cli/open_model.h"
#include "cli/planned_storage.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "eval/sparsity.h"

namespace thermocline::cli {
namespace {

constexpr const char* kWhyAll = "'eval sparsity' looks at all gates";

// FitSides, of a model that is in memory whole.
Status CheckFits(const TextFlags& flags, std::array<Side, 2>& sides,
                 int64_t chunk) {
  const Status fits = FitSides(sides, chunk);
  if (fits || !flags.session.ram) return fits;
  return Fail(fits.error().code, "{} ({}, so that its model does not stream)",
              fits.error().message, kWhyAll);
}

Status RunSparsity(const TextFlags& flags) {
  TC_RETURN_IF_ERROR(RefuseStoragePlan(flags.session, kWhyAll));
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(flags.text_file));
  ProgressLine opening;
  TC_ASSIGN_OR_RETURN(const ModelPtr model, OpenModel(flags.model, opening));
  const int64_t chunk =
      ChunkLength(flags.session, model->config().context_length);
  TC_ASSIGN_OR_RETURN(const auto tokens, TokensOf(flags, *model, text, chunk));
  eval::SparsityMeter meter(model);
  const engine::FfnMode modes[] = {flags.session.ffn, engine::FfnMode::kDense};
  TC_ASSIGN_OR_RETURN(
      const engine::SessionOptions asked,
      ChunkOptions(flags.session, model->config(), chunk, opening));
  auto options = InModes(asked, modes);
  KeepToHost(options[1]);  // what it is compared with
  options[0].observer = meter.observer();
  TC_RETURN_IF_ERROR(ShareThreads(options));
  std::array<Side, 2> sides = {
      {{"model", model, options[0]}, {"base", model, options[1]}}};
  TC_RETURN_IF_ERROR(CheckFits(flags, sides, chunk));
  TC_ASSIGN_OR_RETURN(const auto session, OpenSide(sides[0]));
  TC_ASSIGN_OR_RETURN(const auto dense, OpenSide(sides[1]));
  TC_RETURN_IF_ERROR(meter.Begin(*session));
  ProgressLine progress;
  const auto sparsity =
      eval::MeasureSparsity(*session, *dense, meter, tokens,
                            {chunk, flags.max_chunks}, progress.callback());
  progress.Clear();
  TC_RETURN_IF_ERROR(sparsity);
  return WriteStdout((flags.json ? eval::FormatSparsityJson(*sparsity)
                                 : eval::FormatSparsity(*sparsity)) +
                     "\n");
}

}  // namespace

void AddEvalSparsityCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<TextFlags>();
  CLI::App* app = parent.add_subcommand(
      "sparsity", "What a sparse mode leaves out, misses and saves");
  AddTextFlags(*app, *flags);
  app->footer(
      "Every position runs in the mode that --ffn asks for; all gates are\n"
      "computed beside it, from the same inputs, to see which neurons it "
      "misses.\nPredictions are compared with those of a dense session. Bytes "
      "are those of\na token that is computed alone.\n\nExamples:\n"
      "  thermocline eval sparsity -m model.tc.gguf -f text.txt\n"
      "  thermocline eval sparsity -m relu.gguf -f text.txt --ffn exact");
  app->callback([flags, &action] {
    CheckChunkFlag(flags->session);
    CheckScoresAreUsed(flags->model, flags->session.predictor,
                       {flags->session.ffn});
    action = [flags] { return RunSparsity(*flags); };
  });
}

}  // namespace thermocline::cli
