// `thermocline profile`: which neurons a model fires over a text.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/quote.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/encode_text.h"
#include "cli/eval_commands.h"
#include "cli/eval_text_flags.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/profile_report.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "gguf/gguf.h"
#include "model/profile_file.h"
#include "os/file.h"
#include "training/corpus.h"
#include "training/profile_corpus.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMaxTokens = neuron::kMaxProfileTokens;

struct ProfileFlags {
  ModelFlags model;
  SessionFlags session;
  std::optional<std::string> corpus_path;
  std::optional<std::string> output_path;
  std::optional<std::string> html_path;
  std::optional<int64_t> max_tokens;
  bool json = false;
};

std::vector<std::string> OutputsOf(const ProfileFlags& flags) {
  std::vector<std::string> outputs;
  if (flags.output_path.has_value()) outputs.push_back(*flags.output_path);
  if (flags.html_path.has_value()) outputs.push_back(*flags.html_path);
  return outputs;
}

Status CheckProfileOutputs(const ProfileFlags& flags) {
  std::vector<std::string> inputs =
      InputFilesOf(flags.model, flags.session.device);
  if (flags.corpus_path.has_value()) inputs.push_back(*flags.corpus_path);
  return CheckOutputs(OutputsOf(flags), inputs);
}

Result<model::ProfileFile> Measure(const ProfileFlags& flags) {
  const std::string& path = *flags.corpus_path;
  TC_ASSIGN_OR_RETURN(const LongText text, LongText::Open(path));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(
      const auto model,
      OpenModel(
          flags.model, progress, &flags.session,
          [&](const model::Config& config, engine::SessionOptions from_flags) {
            from_flags.context = static_cast<int64_t>(training::ChunkTokens(
                flags.session.context, config.context_length));
            return SessionsThatObserve(config, from_flags);
          }));
  TC_ASSIGN_OR_RETURN(
      const auto corpus,
      EncodeCorpus(*model, text.text(), InputName(path),
                   {.chunk = flags.session.context,
                    .max_tokens = flags.max_tokens,
                    .default_max_tokens = neuron::kMaxProfileTokens}));
  TC_ASSIGN_OR_RETURN(
      engine::SessionOptions options,
      MakeSessionOptions(flags.session, model->config(), progress));
  options.ffn = training::ProfileMode(model->config());
  WriteStderr(fmt::format("profile: {} of {}, {} at a time, {}\n",
                          Plural(corpus.num_tokens(), "token"),
                          WithoutControls(InputFileName(path)),
                          corpus.chunk_tokens(), NameOf(options.ffn)));
  auto profile =
      training::ProfileCorpus(model, corpus, options, progress.callback());
  progress.Clear();
  TC_RETURN_IF_ERROR(profile);
  return model::ProfileFile{
      .model = model::FingerprintOf(*model),
      .corpus = InputFileName(path),
      .context = static_cast<int64_t>(corpus.chunk_tokens()),
      .profile = *std::move(profile)};
}

// What was measured earlier.
Result<model::ProfileFile> ReadMeasured(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(path));
  auto profile = model::ReadProfile(*file);
  if (profile || profile.error().code != ErrorCode::kNotFound) return profile;
  return Fail(ErrorCode::kNotFound,
              "{}: holds no profile to show; to make one of a model add "
              "--corpus FILE, a text to run it over",
              path);
}

Status WritePage(const model::ProfileFile& profile, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(path));
  TC_RETURN_IF_ERROR(file->Write(FormatProfileHtml(profile)));
  return file->Commit();
}

Status Run(const ProfileFlags& flags) {
  TC_RETURN_IF_ERROR(CheckProfileOutputs(flags));
  TC_ASSIGN_OR_RETURN(const auto profile, flags.corpus_path.has_value()
                                              ? Measure(flags)
                                              : ReadMeasured(flags.model.path));
  if (flags.output_path.has_value()) {
    TC_RETURN_IF_ERROR(model::WriteProfile(profile, *flags.output_path));
    WriteStderr(Wrote(*flags.output_path) + "\n");
  }
  if (flags.html_path.has_value()) {
    TC_RETURN_IF_ERROR(WritePage(profile, *flags.html_path));
    WriteStderr(Wrote(*flags.html_path) + "\n");
  }
  return WriteReport(
      flags.json ? FormatProfileJson(profile) : FormatProfile(profile),
      OutputsOf(flags));
}

}  // namespace

void AddProfileCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* app = parent.add_subcommand(
      "profile", "Counts which neurons a model fires over a text");
  AddRequiredPath(*app, "MODEL", flags->model.path, "",
                  "GGUF model; without --corpus a profile to show")
      ->required(false);
  AddModelFlags(*app, flags->model);
  app->get_option("--model")->required(false);
  AddPath(*app, "--corpus", flags->corpus_path, "FILE",
          "Text to run the model over; -: standard input");
  AddPath(*app, "-o,--output", flags->output_path, "FILE",
          "Profile to write, for other commands");
  AddPath(*app, "--html", flags->html_path, "FILE",
          "Write a page that draws it, for any browser");
  app->add_flag("--json", flags->json, "One JSON object instead of text");
  AddInt(*app, "-n,--max-tokens", flags->max_tokens, training::kMinChunks,
         kMaxTokens,
         "The most tokens to run, 16 chunks at least; of a longer text, chunks "
         "at even distances (default: all)");
  AddObservedSessionFlags(*app, flags->session,
                          "256, or the model's if that is less");
  AddRamFlag(*app, flags->session);
  app->footer(
      "Each chunk of -c tokens starts with an empty context; every neuron is\n"
      "computed at every position. A neuron fires where its activation is not "
      "0,\nor where the file brings thresholds, not below them.\n\nExamples:\n"
      "  thermocline profile model.gguf --corpus text.txt -o model.profile\n"
      "  thermocline profile model.gguf --corpus text.txt --html model.html\n"
      "  thermocline profile model.profile --json | jq .density");
  app->callback([flags, app, &action] {
    CheckOneModel(*app);
    if (!flags->corpus_path.has_value()) {
      RefuseAllBut(*app, {"MODEL", "--model", "--output", "--html", "--json"},
                   "without --corpus: MODEL is a profile to show");
    }
    CheckChunkFlag(flags->session);
    action = [flags] { return Run(*flags); };
  });
}

}  // namespace thermocline::cli
