// `thermocline trace`: which neurons fire, token by token.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/encode_text.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/prompt_file.h"
#include "cli/session_flags.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "cli/trace_recorder.h"
#include "cli/trace_report.h"
#include "decode/generate.h"
#include "model/profile_file.h"
#include "model/weight_bytes.h"
#include "os/file.h"
#include "training/profile_corpus.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kDefaultGenerated = 64;
constexpr int64_t kMaxGenerated = int64_t{1} << 24;

struct TraceFlags {
  ModelFlags model;
  SessionFlags session;
  std::optional<std::string> prompts_path;
  std::optional<std::string> output_path;
  std::optional<std::string> stats_path;
  std::optional<std::string> html_path;
  std::vector<int64_t> lookaheads;
  bool has_candidates = false;
  int64_t num_generated = kDefaultGenerated;
  std::optional<int64_t> max_prompts;
  bool generated_only = false;
  bool json = false;
};

// A prompt as the model gets it.
struct Task {
  size_t line;
  std::vector<text::TokenId> tokens;
};

Result<std::vector<Prompt>> ReadPrompts(const std::string& path,
                                        const std::string& name) {
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return ParsePrompts(text, name);
}

Result<std::vector<Task>> Tokenize(const TraceFlags& flags,
                                   const model::Model& model,
                                   const std::vector<Prompt>& prompts) {
  TC_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer,
                      RequireTokenizer(model));
  std::vector<Task> tasks;
  for (const Prompt& prompt : prompts) {
    if (flags.max_prompts.has_value() &&
        std::cmp_equal(tasks.size(), *flags.max_prompts)) {
      break;
    }
    TC_ASSIGN_OR_RETURN(auto tokens, EncodeText(*tokenizer, prompt.text,
                                                {.parse_special = true}));
    tasks.push_back({prompt.line, std::move(tokens)});
  }
  return tasks;
}

// Before any work: a prompt that fills the context would generate nothing, and
// none can be made of text that the vocabulary leaves out.
Status CheckFits(const std::vector<Task>& tasks, int64_t context,
                 const std::string& name) {
  for (const Task& task : tasks) {
    if (task.tokens.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: line {}: has no tokens: the vocabulary lacks its text",
                  name, task.line);
    }
    if (std::cmp_less(task.tokens.size(), context)) continue;
    return Fail(ErrorCode::kResourceExhausted,
                "{}: line {}: its {} leave no room in the context of {}; "
                "use a larger one (-c)",
                name, task.line, Plural(task.tokens.size(), "token"),
                Plural(context, "position"));
  }
  return {};
}

// Greedy, so that the same prompts give the same trace.
decode::GenerateOptions GreedyOptions(const TraceFlags& flags) {
  decode::GenerateOptions options;
  options.max_tokens = flags.num_generated;
  options.sampler.temperature = 0.0f;
  options.sampler.seed = 0;
  options.cancel = CancelFlag();
  return options;
}

Status RunTasks(const TraceFlags& flags, const std::vector<Task>& tasks,
                engine::Session& session, TraceRecorder& recorder) {
  const std::string file =
      std::filesystem::path(*flags.prompts_path).filename().string();
  ProgressLine progress;
  const ProgressFn report = progress.callback();
  for (size_t i = 0; i < tasks.size(); ++i) {
    ReportProgress(report, "prompts", i, tasks.size());
    session.Truncate(0);
    recorder.BeginPrompt(tasks[i].tokens.size(),
                         fmt::format("{}:{}", file, tasks[i].line));
    const auto generated =
        decode::Generate(session, tasks[i].tokens, GreedyOptions(flags),
                         [&](std::string_view /*text*/) {
                           return recorder.status().has_value();
                         });
    TC_RETURN_IF_ERROR(generated);
    if (generated->reason == decode::StopReason::kCancelled) {
      return Fail(ErrorCode::kCancelled, "cancelled");
    }
    recorder.Flush();
    TC_RETURN_IF_ERROR(recorder.status());
  }
  return {};
}

std::string DescribeTotals(const neuron::TraceTotals& totals) {
  return totals.num_tokens == 0
             ? "nothing was recorded: of no prompt more than one token was "
               "generated, and the last one is not computed"
             : fmt::format("{} of {}, {}", Plural(totals.num_tokens, "token"),
                           Plural(totals.num_sequences, "prompt"),
                           Plural(totals.num_fired, "activation"));
}

Result<neuron::TraceHeader> MakeHeader(const TraceFlags& flags,
                                       const model::Model& model) {
  TC_ASSIGN_OR_RETURN(neuron::TraceHeader header, TraceHeaderOf(model));
  if (flags.generated_only) {
    header.positions = neuron::TracePositions::kGenerated;
  }
  header.has_candidates = flags.has_candidates;
  for (const int64_t k : flags.lookaheads) {
    header.lookaheads |= uint32_t{1} << k;
  }
  return header;
}

// Whom predictors name, if the trace is to hold it; or null.
Result<std::unique_ptr<engine::PredictorProbe>> MakeProbe(
    const TraceFlags& flags, std::shared_ptr<const model::Model> model) {
  if (!flags.has_candidates && flags.lookaheads.empty()) return nullptr;
  const bool looks_ahead =
      std::ranges::any_of(flags.lookaheads, [](int64_t k) { return k > 0; });
  if (looks_ahead && model::CommonFfn(model->config()).num_experts > 0) {
    return Fail(ErrorCode::kUnsupported,
                "{}: a mixture's predictors are asked once the router has "
                "chosen: nobody is named layers early",
                model->file().path());
  }
  return engine::PredictorProbe::Create(std::move(model), flags.session.isa);
}

Status Record(const TraceFlags& flags) {
  const std::string& path = *flags.prompts_path;
  std::vector<std::string> inputs =
      InputFilesOf(flags.model, flags.session.device);
  inputs.push_back(path);
  TC_RETURN_IF_ERROR(RefuseToReplaceInput(*flags.output_path, inputs));
  const std::string name = InputName(path);
  TC_ASSIGN_OR_RETURN(const auto prompts, ReadPrompts(path, name));
  ProgressLine opening;
  TC_ASSIGN_OR_RETURN(
      const auto model,
      OpenModel(flags.model, opening, &flags.session,
                [](const model::Config& config, const auto& from_flags) {
                  return SessionsThatObserve(config, from_flags);
                }));
  TC_ASSIGN_OR_RETURN(const auto tasks, Tokenize(flags, *model, prompts));
  TC_ASSIGN_OR_RETURN(const auto header, MakeHeader(flags, *model));
  TC_ASSIGN_OR_RETURN(const auto probe, MakeProbe(flags, model));
  TC_ASSIGN_OR_RETURN(const auto writer,
                      neuron::TraceWriter::Create(*flags.output_path, header));
  TraceRecorder recorder(writer.get(), header, probe.get(),
                         flags.session.batch);
  TC_ASSIGN_OR_RETURN(
      engine::SessionOptions options,
      MakeSessionOptions(flags.session, model->config(), opening));
  options.ffn = training::ProfileMode(model->config());
  options.progress = {};
  options.observer = [&](const auto& seen) { recorder.See(seen); };
  TC_ASSIGN_OR_RETURN(const auto session, CreateSession(model, options));
  TC_RETURN_IF_ERROR(CheckFits(tasks, session->context(), name));
  WriteStderr(fmt::format("trace: {} positions, {}\n",
                          flags.generated_only ? "generated" : "all",
                          DescribeMode(*session, options)));
  TC_RETURN_IF_ERROR(RunTasks(flags, tasks, *session, recorder));
  TC_RETURN_IF_ERROR(writer->Finish());
  return WriteReport(fmt::format("{}: {}\n", Wrote(*flags.output_path),
                                 DescribeTotals(writer->totals())),
                     {*flags.output_path});
}

Status WriteTracePage(const TraceReport& report, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(path));
  TC_RETURN_IF_ERROR(file->Write(FormatTraceHtml(report)));
  TC_RETURN_IF_ERROR(file->Commit());
  WriteStderr(Wrote(path) + "\n");
  return {};
}

Status ShowStats(const TraceFlags& flags) {
  std::vector<std::string> outputs;
  if (flags.html_path.has_value()) outputs.push_back(*flags.html_path);
  TC_RETURN_IF_ERROR(CheckOutputs(outputs, std::span(&*flags.stats_path, 1)));
  ProgressLine progress;
  const auto report = ReadTrace(*flags.stats_path, progress.callback());
  progress.Clear();
  TC_RETURN_IF_ERROR(report);
  for (const std::string& path : outputs) {
    TC_RETURN_IF_ERROR(WriteTracePage(*report, path));
  }
  return WriteReport(
      flags.json ? FormatTraceJson(*report) : FormatTrace(*report), outputs);
}

// Throws usage errors.
void CheckUsage(const CLI::App& app, const TraceFlags& flags) {
  if (flags.stats_path.has_value()) {
    RefuseAllBut(app, {"--stats", "--json", "--html"},
                 "with --stats: a trace is shown");
    return;
  }
  if (flags.json || flags.html_path.has_value()) {
    throw CLI::ValidationError(
        fmt::format("{} goes with --stats", flags.json ? "--json" : "--html"));
  }
  if (!flags.model.path.empty() && flags.prompts_path.has_value() &&
      flags.output_path.has_value()) {
    return;
  }
  throw CLI::ValidationError(
      "give -m, -f and -o to record a trace, or --stats FILE to show one");
}

void AddRecordFlags(CLI::App& app, TraceFlags& flags) {
  AddPath(app, "-f,--file", flags.prompts_path, "FILE",
          "Prompts: one per line, or JSON lines; -: standard input");
  AddPath(app, "-o,--output", flags.output_path, "FILE", "Trace to write");
  AddInt(app, "-n,--n-predict", flags.num_generated, 1, kMaxGenerated,
         fmt::format("Tokens to generate for each prompt (default {})",
                     kDefaultGenerated));
  AddInt(app, "--limit", flags.max_prompts, 1, kMaxGenerated,
         "The first N prompts only (default: all)");
  app.add_flag("--generated", flags.generated_only,
               "Record generated positions only, not those of prompts");
  app.add_flag("--candidates", flags.has_candidates,
               "Record whom the model's predictors name, too");
  AddIntList(app, "--lookahead", flags.lookaheads, 0,
             neuron::kMaxTraceLookahead,
             "Record whom they name so many layers early, too");
}

}  // namespace

void AddTraceCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<TraceFlags>();
  CLI::App* app = parent.add_subcommand(
      "trace", "Records which neurons fire, token by token");
  AddModelFlags(*app, flags->model);
  app->get_option("--model")->required(false);
  AddRecordFlags(*app, *flags);
  AddPath(*app, "--stats", flags->stats_path, "FILE",
          "Show what fires in a trace, and how it changes, instead");
  AddPath(*app, "--html", flags->html_path, "FILE",
          "With --stats: draw it, as a page for browsers");
  app->add_flag("--json", flags->json, "With --stats: one JSON object");
  AddObservedSessionFlags(*app, flags->session, "the model's, at most 4096");
  AddRamFlag(*app, flags->session);
  app->footer(
      "Each prompt starts with an empty context; the likeliest token is taken\n"
      "until -n, an end token or the end of the context. Every position is\n"
      "recorded, prompts too; the last token of each is not, since nothing is\n"
      "computed for it.\n\nExamples:\n"
      "  thermocline trace -m model.gguf -f prompts.txt -o model.trace -n 64\n"
      "  thermocline trace -m model.gguf -f prompts.txt -o model.trace "
      "--lookahead 0,1,2\n"
      "  thermocline trace --stats model.trace --html model.html");
  app->callback([flags, app, &action] {
    CheckUsage(*app, *flags);
    action = [flags] {
      return flags->stats_path.has_value() ? ShowStats(*flags) : Record(*flags);
    };
  });
}

}  // namespace thermocline::cli
