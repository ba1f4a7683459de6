// `thermocline eval logits`.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/eval_commands.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "engine/runtime.h"
#include "eval/logits.h"
#include "os/file.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMaxTokenId = std::numeric_limits<text::TokenId>::max();

struct LogitsFlags {
  ModelFlags model;
  SessionFlags session;
  std::vector<std::vector<int64_t>> lists;  // of each --tokens
  std::optional<std::string> tokens_file;
  std::string output;
  bool one_by_one = false;
  bool together = false;
};

// Where the ids come from, as a user knows it.
std::string SourceOf(const LogitsFlags& flags) {
  return flags.tokens_file.has_value() ? InputName(*flags.tokens_file)
                                       : "--tokens";
}

using Sequence = std::vector<text::TokenId>;

Result<std::vector<std::vector<int64_t>>> ReadFile(const LogitsFlags& flags) {
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(*flags.tokens_file));
  std::vector<std::string_view> parts = {text};
  if (flags.together) {  // each line is a sequence
    parts.clear();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const auto line = std::string_view(text).substr(begin, end - begin);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos)
        parts.push_back(line);
      begin = end + 1;
    }
    if (parts.empty()) parts.push_back("");
  }
  std::vector<std::vector<int64_t>> lists;
  for (const std::string_view part : parts) {
    auto parsed = ParseIntList(part, 0, kMaxTokenId);
    if (!parsed.has_value()) return Annotate(SourceOf(flags), parsed.error());
    lists.push_back(*std::move(parsed));
  }
  return lists;
}

// One, or with --together one for each list.
Result<std::vector<Sequence>> ReadSequences(const LogitsFlags& flags) {
  std::vector<std::vector<int64_t>> lists = flags.lists;
  if (flags.tokens_file.has_value()) {
    TC_ASSIGN_OR_RETURN(lists, ReadFile(flags));
  }
  std::vector<Sequence> sequences(flags.together ? lists.size() : 1);
  for (size_t i = 0; i < lists.size(); ++i) {
    Sequence& sequence = sequences[flags.together ? i : 0];
    sequence.insert(sequence.end(), lists[i].begin(), lists[i].end());
  }
  return sequences;
}

size_t LongestOf(const std::vector<Sequence>& sequences) {
  return std::ranges::max_element(sequences, {}, &Sequence::size)->size();
}

Status CheckTokens(const LogitsFlags& flags, const model::Config& config,
                   const std::vector<Sequence>& sequences) {
  size_t number = 0;
  for (const Sequence& sequence : sequences) {
    for (const text::TokenId token : sequence) {
      ++number;
      if (std::cmp_less(token, config.vocab_size)) continue;
      return Fail(
          ErrorCode::kInvalidArgument,
          "{}: id {} (number {}) is outside the model's vocabulary of {}",
          SourceOf(flags), token, number, config.vocab_size);
    }
  }
  const int64_t limit = flags.session.context.value_or(0) > 0
                            ? *flags.session.context
                            : config.context_length;
  const size_t longest = LongestOf(sequences);
  if (static_cast<int64_t>(longest) <= limit) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "{}: {} ids are more than the context of {} (-c)",
              SourceOf(flags), longest, Plural(limit, "position"));
}

std::vector<std::string> InputFiles(const LogitsFlags& flags) {
  std::vector<std::string> paths =
      InputFilesOf(flags.model, flags.session.device);
  if (flags.tokens_file.has_value()) paths.push_back(*flags.tokens_file);
  return paths;
}

// Sequences that share passes, with memory for all of them.
Status WriteTogether(const LogitsFlags& flags,
                     const std::shared_ptr<const model::Model>& model,
                     const std::vector<Sequence>& sequences,
                     engine::SessionOptions options,
                     const eval::BytesFn& write) {
  TC_ASSIGN_OR_RETURN(const engine::MemoryPlan plan,
                      engine::PlanMemory(model->config(), options));
  TC_RETURN_IF_ERROR(
      FitSessions(*model,
                  eval::TogetherBytes(sequences, model->config().vocab_size,
                                      flags.one_by_one),
                  {&plan, 1}, {&options, 1}));
  TC_ASSIGN_OR_RETURN(const auto runtime,
                      engine::Runtime::Create(model, options));
  TC_RETURN_IF_ERROR(
      eval::WriteLogitsTogether(*runtime, sequences, flags.one_by_one, write));
  WriteStderr(FormatPrefillTimes("prefill device",
                                 runtime->engine().prompt_times(),
                                 model->config().layers.size()));
  return {};
}

// Whose positions and sequences are those that are used.
engine::SessionOptions LogitsSession(const LogitsFlags& flags,
                                     const std::vector<Sequence>& sequences,
                                     engine::SessionOptions options) {
  options.context = static_cast<int64_t>(LongestOf(sequences));
  if (flags.together) {
    options.num_sequences = static_cast<int64_t>(sequences.size());
  }
  return options;
}

// With the logits that are kept beside it.
ModelSessions LogitsSessions(const LogitsFlags& flags,
                             const std::vector<Sequence>& sequences,
                             const model::Config& config,
                             const engine::SessionOptions& from_flags) {
  ModelSessions of_model = {
      .sessions = {LogitsSession(flags, sequences, from_flags)}};
  if (flags.together) {
    of_model.beside_bytes =
        eval::TogetherBytes(sequences, config.vocab_size, flags.one_by_one);
  }
  return of_model;
}

Status RunLogits(const LogitsFlags& flags) {
  TC_RETURN_IF_ERROR(RefuseToReplaceInput(flags.output, InputFiles(flags)));
  TC_ASSIGN_OR_RETURN(const auto sequences, ReadSequences(flags));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(
      const auto model,
      OpenModel(flags.model, progress, &flags.session,
                [&](const model::Config& config, const auto& from_flags) {
                  return LogitsSessions(flags, sequences, config, from_flags);
                }));
  TC_RETURN_IF_ERROR(CheckTokens(flags, model->config(), sequences));
  TC_ASSIGN_OR_RETURN(
      engine::SessionOptions options,
      MakeSessionOptions(flags.session, model->config(), progress));
  options = LogitsSession(flags, sequences, std::move(options));
  std::unique_ptr<os::AtomicFile> file;
  // Made with the first rows: what cannot run leaves nothing.
  const auto write = [&](std::span<const std::byte> bytes) -> Status {
    if (file == nullptr) {
      TC_ASSIGN_OR_RETURN(file, os::AtomicFile::Create(flags.output));
    }
    return file->Write(bytes);
  };
  if (flags.together) {
    TC_RETURN_IF_ERROR(WriteTogether(flags, model, sequences, options, write));
  } else {
    TC_ASSIGN_OR_RETURN(const auto session, CreateSession(model, options));
    TC_RETURN_IF_ERROR(eval::WriteLogits(*session, sequences.front(),
                                         flags.one_by_one, write));
    WriteStderr(FormatPrefillTimes(*session));
  }
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
  auto* tokens = AddParsed(
      *app, "--tokens", "N,...",
      "Token ids, taken as they are: no BOS is added; given again, more of "
      "them",
      [flags](const std::string& text) -> Status {
        TC_ASSIGN_OR_RETURN(flags->lists.emplace_back(),
                            ParseIntList(text, 0, kMaxTokenId));
        return {};
      });
  auto* tokens_file =
      AddPath(*app, "--tokens-file", flags->tokens_file, "FILE",
              "File with the ids, separated by commas or white space; -: "
              "standard input");
  AddRequiredPath(*app, "-o,--output", flags->output, "FILE",
                  "File to write: f32 [T, V], little-endian, all positions");
  app->add_flag("--one-by-one", flags->one_by_one,
                "Decode token by token instead of in one batch, as what is "
                "generated");
  app->add_flag("--together", flags->together,
                "Each --tokens, or line of --tokens-file, is a sequence of its "
                "own; all share one batch. Rows come sequence by sequence, "
                "with the bits that each has alone");
  AddThreadsFlag(*app, flags->session);
  AddContextFlag(*app, flags->session, "the model's");
  AddEngineFlags(*app, flags->model, flags->session);
  AddPrefillDeviceFlags(*app, flags->session.prefill_device);
  AddTimelineFlag(*app, flags->session);
  app->footer(
      "Examples:\n"
      "  thermocline eval logits -m model.gguf --tokens 1,15,7 -o out.f32\n"
      "  thermocline eval logits -m model.gguf --tokens-file ids.txt \\\n"
      "      -o out.f32 --one-by-one --isa scalar\n"
      "  thermocline eval logits -m model.gguf --tokens 1,5,9 --tokens 7,7 \\\n"
      "      --together -o out.f32");
  app->callback([flags, tokens, tokens_file, &action] {
    if ((tokens->count() > 0) == (tokens_file->count() > 0)) {
      throw CLI::ValidationError(
          "give the ids by either --tokens or --tokens-file");
    }
    CheckScoresAreUsed(flags->model, flags->session.predictor,
                       {flags->session.ffn});
    action =
        WithTimeline(flags->session.timeline, InputFiles(*flags),
                     {flags->output}, [flags] { return RunLogits(*flags); });
  });
}

}  // namespace thermocline::cli
