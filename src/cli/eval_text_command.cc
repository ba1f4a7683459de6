// `thermocline eval ppl` and `thermocline eval kl`: predictions over a text.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/eval_commands.h"
#include "cli/eval_text_flags.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "eval/divergence.h"
#include "eval/perplexity.h"
#include "eval/predictions.h"

namespace thermocline::cli {
namespace {

Status RunPpl(const TextFlags& flags) {
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(flags.text_file));
  ProgressLine opening;
  TC_ASSIGN_OR_RETURN(
      const auto model,
      OpenForChunks(flags.model, flags.session, {flags.session.ffn}, opening));
  const int64_t chunk =
      ChunkLength(flags.session, model->config().context_length);
  TC_ASSIGN_OR_RETURN(const auto tokens, TokensOf(flags, *model, text, chunk));
  TC_ASSIGN_OR_RETURN(
      const engine::SessionOptions options,
      ChunkOptions(flags.session, model->config(), chunk, opening));
  TC_ASSIGN_OR_RETURN(const auto session, CreateSession(model, options));
  WriteStderr(DescribeMode(*session, options) + "\n");
  ProgressLine progress;
  const auto perplexity = eval::MeasurePerplexity(
      *session, tokens, {chunk, flags.max_chunks}, progress.callback());
  progress.Clear();
  TC_RETURN_IF_ERROR(perplexity);
  WriteStderr(FormatPrefillTimes(*session));
  return WriteStdout((flags.json ? eval::FormatPerplexityJson(*perplexity)
                                 : eval::FormatPerplexity(*perplexity)) +
                     "\n");
}

struct KlFlags : TextFlags {
  std::optional<std::string> base_path;
  std::optional<engine::FfnMode> base_mode;

  // Of the model and the base.
  std::vector<engine::FfnMode> modes() const {
    return {session.ffn, base_mode.value_or(session.ffn)};
  }
};

// The model, and the one to compare with: of its own file as that says, or the
// same one. Two files have their parts of the budget, in `sessions`.
Result<std::array<ModelPtr, 2>> OpenBoth(const KlFlags& flags,
                                         std::array<SessionFlags, 2>& sessions,
                                         ProgressLine& progress) {
  const std::vector<engine::FfnMode> modes = flags.modes();
  if (!flags.base_path.has_value()) {
    TC_ASSIGN_OR_RETURN(
        ModelPtr model,
        OpenForChunks(flags.model, flags.session, modes, progress));
    return std::array{model, model};
  }
  const ModelFlags base = {.path = *flags.base_path,
                           .check_tensors = flags.model.check_tensors,
                           .hold = flags.model.hold};
  TC_ASSIGN_OR_RETURN(sessions, ShareRam(flags.session, {&flags.model, &base},
                                         {modes[0], modes[1]}));
  std::array<ModelPtr, 2> models;
  TC_ASSIGN_OR_RETURN(
      models[0], OpenForChunks(flags.model, sessions[0], {modes[0]}, progress));
  TC_ASSIGN_OR_RETURN(models[1],
                      OpenForChunks(base, sessions[1], {modes[1]}, progress));
  TC_RETURN_IF_ERROR(eval::CheckSameVocabulary(*models[0], *models[1]));
  return models;
}

// The text's tokens, which are the same for both models.
Result<std::vector<text::TokenId>> TokensOfBoth(const TextFlags& flags,
                                                const model::Model& model,
                                                const model::Model& base,
                                                const std::string& text,
                                                int64_t chunk) {
  TC_ASSIGN_OR_RETURN(auto tokens, TokensOf(flags, model, text, chunk));
  if (&base == &model) return tokens;
  TC_ASSIGN_OR_RETURN(const auto base_tokens,
                      TokensOf(flags, base, text, eval::kMinChunk));
  if (base_tokens == tokens) return tokens;
  const auto [token, base_token] = std::ranges::mismatch(tokens, base_tokens);
  return Fail(ErrorCode::kInvalidArgument,
              "{} and {} cut the text into different tokens, from token {} on: "
              "their merges, scores, token types or pre-tokenizers differ",
              model.file().path(), base.file().path(),
              token - tokens.begin() + 1);
}

// The engine's own message would blame --ffn.
Status CheckBaseMode(const model::Model& base,
                     const engine::SessionOptions& options) {
  const bool needs_one =
      options.ffn == engine::FfnMode::kFast &&
      (options.predictor == engine::PredictorChoice::kAuto ||
       options.predictor == engine::PredictorChoice::kTrained);
  if (!needs_one || base.config().predictor.is_there() ||
      base.config().has_training_free) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "base {}: brings no predictors, which the fast mode needs: use "
              "--base-mode dense",
              base.file().path());
}

Status RunKl(const KlFlags& flags) {
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(flags.text_file));
  ProgressLine opening;
  std::array sessions = {flags.session, flags.session};
  TC_ASSIGN_OR_RETURN(const auto models, OpenBoth(flags, sessions, opening));
  const auto& [model, base] = models;
  const int64_t chunk = ChunkLength(
      flags.session,
      std::min(model->config().context_length, base->config().context_length));
  TC_ASSIGN_OR_RETURN(const auto tokens,
                      TokensOfBoth(flags, *model, *base, text, chunk));
  TC_ASSIGN_OR_RETURN(
      const engine::SessionOptions asked,
      ChunkOptions(flags.session, model->config(), chunk, opening));
  auto options = InModes(asked, flags.modes());
  KeepToHost(options[1]);  // what it is compared with
  for (size_t i = 0; i < options.size(); ++i) {
    if (sessions[i].ram) options[i].budget.ram = sessions[i].ram;
  }
  TC_RETURN_IF_ERROR(CheckBaseMode(*base, options[1]));
  TC_RETURN_IF_ERROR(ShareThreads(options));
  std::array<Side, 2> sides = {
      {{"model", model, options[0]}, {"base", base, options[1]}}};
  TC_RETURN_IF_ERROR(FitSides(sides, chunk));
  TC_ASSIGN_OR_RETURN(const auto session, OpenSide(sides[0]));
  TC_ASSIGN_OR_RETURN(const auto base_session, OpenSide(sides[1]));
  ProgressLine progress;
  const auto divergence =
      eval::MeasureDivergence(*session, *base_session, tokens,
                              {chunk, flags.max_chunks}, progress.callback());
  progress.Clear();
  TC_RETURN_IF_ERROR(divergence);
  WriteStderr(FormatPrefillTimes(*session));
  return WriteStdout((flags.json ? eval::FormatDivergenceJson(*divergence)
                                 : eval::FormatDivergence(*divergence)) +
                     "\n");
}

}  // namespace

void AddEvalPplCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<TextFlags>();
  CLI::App* app = parent.add_subcommand(
      "ppl", "Perplexity over a text, as llama.cpp counts it");
  AddTextFlags(*app, *flags);
  AddTimelineFlag(*app, flags->session);
  app->footer(
      "Chunks of -c tokens, each from an empty context; predictions in a\n"
      "chunk's second half count.\n\nExamples:\n"
      "  thermocline eval ppl -m model.gguf -f wiki.valid.txt\n"
      "  thermocline eval ppl -m model.gguf -f story.txt -c 256 -ctk q8_0");
  app->callback([flags, &action] {
    CheckChunkFlag(flags->session);
    CheckScoresAreUsed(flags->model, flags->session.predictor,
                       {flags->session.ffn});
    std::vector<std::string> inputs =
        InputFilesOf(flags->model, flags->session.device);
    inputs.push_back(flags->text_file);
    action = WithTimeline(flags->session.timeline, std::move(inputs), {},
                          [flags] { return RunPpl(*flags); });
  });
}

void AddEvalKlCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<KlFlags>();
  CLI::App* app = parent.add_subcommand(
      "kl", "How far a model's predictions are from another's, over a text");
  AddTextFlags(*app, *flags);
  AddPath(*app, "--base", flags->base_path, "FILE",
          "GGUF model to compare with (default: the same, in --base-mode)");
  AddParsed(*app, "--base-mode", "MODE",
            "How the base computes its FFNs: auto, dense, exact, fast, "
            "threshold (default: as the model)",
            [flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags->base_mode, ParseMode(text));
              return {};
            });
  app->footer(
      "Chunks and predictions as in 'eval ppl'. The divergence is KL(base ||\n"
      "model). Both are in memory together; --ffn-act and the like change the\n"
      "model alone where --base is given.\n\nExamples:\n"
      "  thermocline eval kl -m q4_0.gguf --base f16.gguf -f text.txt\n"
      "  thermocline eval kl -m sparse.gguf --base-mode dense -f text.txt");
  app->callback([flags, &action] {
    CheckChunkFlag(flags->session);
    if (!flags->base_path.has_value() && !flags->base_mode.has_value()) {
      throw CLI::ValidationError(
          "give what to compare with: --base, --base-mode or both");
    }
    // Another file keeps its own threshold.
    CheckScoresAreUsed(flags->model, flags->session.predictor,
                       flags->base_path.has_value()
                           ? std::vector{flags->session.ffn}
                           : flags->modes());
    action = [flags] { return RunKl(*flags); };
  });
}

}  // namespace thermocline::cli
