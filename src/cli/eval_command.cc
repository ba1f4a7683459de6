// `thermocline eval logits` and `thermocline eval ppl`.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "eval/logits.h"
#include "eval/perplexity.h"
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

Result<std::vector<text::TokenId>> ReadTokens(const LogitsFlags& flags) {
  std::vector<int64_t> ids = flags.tokens;
  if (flags.tokens_file.has_value()) {
    TC_ASSIGN_OR_RETURN(const std::string text, ReadText(*flags.tokens_file));
    auto parsed = ParseIntList(text, 0, kMaxTokenId);
    if (!parsed.has_value()) {
      return Annotate(*flags.tokens_file, parsed.error());
    }
    ids = *std::move(parsed);
  }
  return std::vector<text::TokenId>(ids.begin(), ids.end());
}

std::vector<std::string> InputFiles(const LogitsFlags& flags) {
  std::vector<std::string> paths = ModelFiles(flags.model.path);
  if (flags.tokens_file.has_value()) paths.push_back(*flags.tokens_file);
  return paths;
}

Status RunLogits(const LogitsFlags& flags) {
  TC_RETURN_IF_ERROR(RefuseToReplaceInput(flags.output, InputFiles(flags)));
  TC_ASSIGN_OR_RETURN(const auto tokens, ReadTokens(flags));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(flags.model, progress));
  engine::SessionOptions options =
      MakeSessionOptions(flags.session, model->config(), progress);
  const int64_t num_tokens = static_cast<int64_t>(tokens.size());
  const int64_t limit =
      options.context > 0 ? options.context : model->config().context_length;
  if (num_tokens > limit) {
    return Fail(ErrorCode::kResourceExhausted,
                "{} tokens are more than the context of {} positions",
                num_tokens, limit);
  }
  options.context = num_tokens;  // no position is used beyond
  TC_ASSIGN_OR_RETURN(const auto session, CreateSession(model, options));
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(flags.output));
  TC_RETURN_IF_ERROR(eval::WriteLogits(
      *session, tokens, flags.one_by_one,
      [&](std::span<const std::byte> bytes) { return file->Write(bytes); }));
  progress.Clear();
  return file->Commit();
}

void AddLogitsCommand(CLI::App& parent, Action& action) {
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
      AddText(*app, "--tokens-file", flags->tokens_file, "FILE",
              "File with the ids, separated by commas or white space; -: "
              "standard input");
  AddRequiredPath(*app, "-o,--output", flags->output, "FILE",
                  "File to write: f32 [T, V], little-endian, all positions");
  app->add_flag("--one-by-one", flags->one_by_one,
                "Decode token by token instead of in one batch");
  AddThreadsFlag(*app, flags->session);
  AddContextFlag(*app, flags->session, "the model's");
  AddEngineFlags(*app, flags->session);
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
    action = [flags] { return RunLogits(*flags); };
  });
}

struct PplFlags {
  ModelFlags model;
  SessionFlags session;
  std::string text_file;
  bool no_parse_special = false;
  bool json = false;
};

constexpr int64_t kDefaultChunk = 512;

// Tokens per chunk: -c, else 512 or the model's context if that is less.
int64_t ChunkLength(const PplFlags& flags, const model::Config& config) {
  if (flags.session.context.has_value() && *flags.session.context > 0) {
    return *flags.session.context;
  }
  if (flags.session.context.has_value()) return config.context_length;
  if (config.context_length < kDefaultChunk) {
    LogInfo("chunks of {} tokens: the model's context is shorter than {}",
            config.context_length, kDefaultChunk);
  }
  return std::min(kDefaultChunk, config.context_length);
}

Status RunPpl(const PplFlags& flags) {
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(flags.text_file));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(flags.model, progress));
  TC_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer,
                      RequireTokenizer(*model));
  TC_ASSIGN_OR_RETURN(
      const auto tokens,
      tokenizer->Encode(text, {.parse_special = !flags.no_parse_special}));
  engine::SessionOptions options =
      MakeSessionOptions(flags.session, model->config(), progress);
  options.context = ChunkLength(flags, model->config());
  options.progress = {};  // chunks, not the tokens inside one
  TC_ASSIGN_OR_RETURN(const auto session, CreateSession(model, options));
  WriteStderr(DescribeMode(*session, options) + "\n");
  const auto perplexity = eval::MeasurePerplexity(
      *session, tokens, options.context, progress.callback());
  progress.Clear();
  TC_RETURN_IF_ERROR(perplexity);
  return WriteStdout((flags.json ? eval::FormatPerplexityJson(*perplexity)
                                 : eval::FormatPerplexity(*perplexity)) +
                     "\n");
}

void AddPplCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<PplFlags>();
  CLI::App* app = parent.add_subcommand(
      "ppl", "Perplexity over a text, as llama.cpp counts it");
  AddModelFlags(*app, flags->model);
  AddRequiredPath(*app, "-f,--file", flags->text_file, "FILE",
                  "Text; -: standard input");
  app->add_flag("--no-parse-special", flags->no_parse_special,
                "Special tokens written out in the text are plain text, as "
                "for llama.cpp");
  app->add_flag("--json", flags->json, "One JSON object instead of a line");
  AddThreadsFlag(*app, flags->session);
  AddContextFlag(*app, flags->session, "512, or the model's if that is less");
  AddEngineFlags(*app, flags->session);
  app->footer(
      "Chunks of -c tokens, each from an empty context; predictions in a\n"
      "chunk's second half count.\n\nExamples:\n"
      "  thermocline eval ppl -m model.gguf -f wiki.valid.txt\n"
      "  thermocline eval ppl -m model.gguf -f story.txt -c 256 -ctk q8_0");
  app->callback(
      [flags, &action] { action = [flags] { return RunPpl(*flags); }; });
}

}  // namespace

void AddEvalCommand(CLI::App& parent, Action& action) {
  CLI::App* app =
      parent.add_subcommand("eval", "Measures how well a model computes");
  app->footer(
      "Examples:\n"
      "  thermocline eval logits -m model.gguf --tokens 1,15,7 -o out.f32\n"
      "  thermocline eval ppl -m model.gguf -f text.txt -c 512");
  AddLogitsCommand(*app, action);
  AddPplCommand(*app, action);
}

}  // namespace thermocline::cli
