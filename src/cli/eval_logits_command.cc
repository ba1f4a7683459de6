// `thermocline eval logits`.
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/eval_commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "eval/logits.h"
#include "os/file.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMaxTokenId = std::numeric_limits<text::TokenId>::max();

struct LogitsFlags {
  ModelFlags model;
  SessionFlags session;
  std::vector<int64_t> tokens;
  std::optional<std::string> tokens_file;
  std::string output;
  bool one_by_one = false;
};

// Where the ids come from, as a user knows it.
std::string SourceOf(const LogitsFlags& flags) {
  return flags.tokens_file.has_value() ? InputName(*flags.tokens_file)
                                       : "--tokens";
}

Result<std::vector<text::TokenId>> ReadTokens(const LogitsFlags& flags) {
  std::vector<int64_t> ids = flags.tokens;
  if (flags.tokens_file.has_value()) {
    TC_ASSIGN_OR_RETURN(const std::string text, ReadText(*flags.tokens_file));
    auto parsed = ParseIntList(text, 0, kMaxTokenId);
    if (!parsed.has_value()) return Annotate(SourceOf(flags), parsed.error());
    ids = *std::move(parsed);
  }
  return std::vector<text::TokenId>(ids.begin(), ids.end());
}

Status CheckTokens(const LogitsFlags& flags, const model::Config& config,
                   std::span<const text::TokenId> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < config.vocab_size) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "{}: id {} (number {}) is outside the model's vocabulary of {}",
                SourceOf(flags), tokens[i], i + 1, config.vocab_size);
  }
  const int64_t limit = flags.session.context.value_or(0) > 0
                            ? *flags.session.context
                            : config.context_length;
  if (static_cast<int64_t>(tokens.size()) <= limit) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "{}: {} ids are more than the context of {} (-c)",
              SourceOf(flags), tokens.size(), Plural(limit, "position"));
}

std::vector<std::string> InputFiles(const LogitsFlags& flags) {
  std::vector<std::string> paths = InputFilesOf(flags.model);
  if (flags.tokens_file.has_value()) paths.push_back(*flags.tokens_file);
  return paths;
}

Status RunLogits(const LogitsFlags& flags) {
  TC_RETURN_IF_ERROR(RefuseToReplaceInput(flags.output, InputFiles(flags)));
  TC_ASSIGN_OR_RETURN(const auto tokens, ReadTokens(flags));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(flags.model, progress));
  TC_RETURN_IF_ERROR(CheckTokens(flags, model->config(), tokens));
  engine::SessionOptions options =
      MakeSessionOptions(flags.session, model->config(), progress);
  // No position is used beyond.
  options.context = static_cast<int64_t>(tokens.size());
  TC_ASSIGN_OR_RETURN(const auto session, CreateSession(model, options));
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(flags.output));
  TC_RETURN_IF_ERROR(eval::WriteLogits(
      *session, tokens, flags.one_by_one,
      [&](std::span<const std::byte> bytes) { return file->Write(bytes); }));
  progress.Clear();
  return file->Commit();
}

}  // namespace

void AddEvalLogitsCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<LogitsFlags>();
  // A comparison of engines should see the arithmetic, not the rounding of
  // the KV cache.
  flags->session.k_type = DType::kF32;
  flags->session.v_type = DType::kF32;
  CLI::App* app =
      parent.add_subcommand("logits", "Writes the raw logits of a token list");
  AddModelFlags(*app, flags->model);
  auto* tokens = AddIntList(*app, "--tokens", flags->tokens, 0, kMaxTokenId,
                            "Token ids, taken as they are: no BOS is added");
  auto* tokens_file =
      AddPath(*app, "--tokens-file", flags->tokens_file, "FILE",
              "File with the ids, separated by commas or white space; -: "
              "standard input");
  AddRequiredPath(*app, "-o,--output", flags->output, "FILE",
                  "File to write: f32 [T, V], little-endian, all positions");
  app->add_flag("--one-by-one", flags->one_by_one,
                "Decode token by token instead of in one batch");
  AddThreadsFlag(*app, flags->session);
  AddContextFlag(*app, flags->session, "the model's");
  AddEngineFlags(*app, flags->model, flags->session);
  app->footer(
      "Examples:\n"
      "  thermocline eval logits -m model.gguf --tokens 1,15,7 -o out.f32\n"
      "  thermocline eval logits -m model.gguf --tokens-file ids.txt \\\n"
      "      -o out.f32 --one-by-one --isa scalar");
  app->callback([flags, tokens, tokens_file, &action] {
    if ((tokens->count() > 0) == (tokens_file->count() > 0)) {
      throw CLI::ValidationError(
          "give the ids by either --tokens or --tokens-file");
    }
    CheckScoresAreUsed(flags->model, flags->session.predictor,
                       {flags->session.ffn});
    action = [flags] { return RunLogits(*flags); };
  });
}

}  // namespace thermocline::cli
