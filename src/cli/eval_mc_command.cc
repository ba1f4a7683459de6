// `thermocline eval mc`: multiple choice.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/eval_commands.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/session_flags.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "eval/mc_encode.h"
#include "eval/mc_report.h"
#include "eval/mc_score.h"
#include "eval/mc_task.h"
#include "os/file.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMaxItems = int64_t{1} << 40;

struct McFlags {
  ModelFlags model;
  SessionFlags session;
  std::string task_file;
  std::optional<std::string> examples_file;
  int64_t num_examples = 0;
  int64_t num_items = 0;
  std::vector<engine::FfnMode> modes;
  std::optional<std::string> items_file;
  eval::McFormat format = eval::McFormat::kTable;
};

// What is asked of the model.
struct McInput {
  eval::McTask task;
  int64_t num_examples = 0;
  std::string examples;
};

struct McMode {
  std::string name;
  std::unique_ptr<engine::Session> session;
};

Status RefuseToReplaceInputs(const McFlags& flags) {
  if (!flags.items_file.has_value()) return {};
  std::vector<std::string> inputs =
      InputFilesOf(flags.model, flags.session.device);
  inputs.push_back(flags.task_file);
  if (flags.examples_file.has_value()) inputs.push_back(*flags.examples_file);
  return RefuseToReplaceInput(*flags.items_file, inputs);
}

Result<eval::McTask> ReadTask(const std::string& path, int64_t max_items) {
  TC_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return eval::ParseMcTask(text, InputName(path),
                           static_cast<size_t>(max_items));
}

Result<McInput> ReadInput(const McFlags& flags) {
  McInput input;
  TC_ASSIGN_OR_RETURN(input.task, ReadTask(flags.task_file, flags.num_items));
  if (!flags.examples_file.has_value()) return input;
  TC_ASSIGN_OR_RETURN(const eval::McTask examples,
                      ReadTask(*flags.examples_file, flags.num_examples));
  if (examples.schema != input.task.schema) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: its records are {}, those of {} are {}", examples.path,
                examples.schema, input.task.path, input.task.schema);
  }
  input.num_examples = static_cast<int64_t>(examples.items.size());
  if (flags.num_examples > input.num_examples) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: has {} records, fewer than --shots {}", examples.path,
                input.num_examples, flags.num_examples);
  }
  input.examples = eval::FormatExamples(examples);
  return input;
}

// Positions that no item takes more of: a token is a byte or more, but for a
// few that begin a text.
int64_t MostPositionsOf(const McInput& input) {
  constexpr size_t kTokensAround = 8;
  size_t longest = 0;
  for (const eval::McItem& item : input.task.items) {
    for (size_t i = 0; i < item.continuations.size(); ++i) {
      longest = std::max(longest,
                         item.context(i).size() + item.continuations[i].size());
    }
  }
  return static_cast<int64_t>(input.examples.size() + longest + kTokensAround);
}

Result<std::shared_ptr<const model::Model>> OpenForItems(
    const McFlags& flags, const McInput& input, ProgressLine& progress) {
  return OpenModel(
      flags.model, progress, &flags.session,
      [&](const model::Config& config,
          engine::SessionOptions options) -> ModelSessions {
        const int64_t given = flags.session.context.value_or(0);
        options.context = std::min(MostPositionsOf(input),
                                   given > 0 ? given : config.context_length);
        if (flags.modes.empty()) return {.sessions = {options}};
        return {.sessions = InModes(options, flags.modes),
                .beside_bytes = eval::ScoringBytes(config.vocab_size)};
      });
}

// Items that fit -c, or without it what the model was trained with.
Result<std::vector<eval::McTokens>> Encode(const McFlags& flags,
                                           const McInput& input,
                                           const model::Model& model) {
  TC_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer,
                      RequireTokenizer(model));
  const int64_t given = flags.session.context.value_or(0);
  ProgressLine progress;
  return eval::EncodeMcTask(
      *tokenizer, input.task,
      {.examples = input.examples,
       .max_positions = given > 0 ? given : model.config().context_length,
       .cancel = CancelFlag(),
       .progress = progress.callback()});
}

// What each mode asks for, all of which fit memory together. The context is
// what the longest item needs.
Result<std::vector<engine::SessionOptions>> PlanModes(
    const McFlags& flags, const std::shared_ptr<const model::Model>& model,
    const std::vector<eval::McTokens>& items, ProgressLine& progress) {
  const model::Config& config = model->config();
  TC_ASSIGN_OR_RETURN(engine::SessionOptions options,
                      MakeSessionOptions(flags.session, config, progress));
  options.context =
      std::ranges::max_element(items, {}, &eval::McTokens::num_positions)
          ->num_positions();
  options.progress = {};  // items, not the tokens inside one
  if (flags.modes.empty()) return std::vector{options};
  auto modes = InModes(options, flags.modes);
  std::vector<engine::MemoryPlan> needs;
  for (const engine::SessionOptions& mode : modes) {
    TC_ASSIGN_OR_RETURN(needs.emplace_back(), engine::PlanMemory(config, mode));
  }
  TC_RETURN_IF_ERROR(ShareThreads(modes));
  TC_RETURN_IF_ERROR(
      FitSessions(*model, eval::ScoringBytes(config.vocab_size), needs, modes));
  return modes;
}

// A session for each mode, before any work: what cannot run says so at once.
Result<std::vector<McMode>> OpenModes(
    const std::shared_ptr<const model::Model>& model,
    const std::vector<engine::SessionOptions>& plan) {
  std::vector<McMode> modes;
  for (const engine::SessionOptions& options : plan) {
    TC_ASSIGN_OR_RETURN(auto session, CreateSession(model, options));
    const std::string name(engine::NameOf(session->ffn()));
    if (std::ranges::count(modes, name, &McMode::name) > 0) {
      // No name is given twice.
      return Fail(ErrorCode::kInvalidArgument,
                  "--modes: 'auto' is '{}' for this model: give one of the two",
                  name);
    }
    WriteStderr(DescribeMode(*session, options) + "\n");
    modes.push_back({name, std::move(session)});
  }
  return modes;
}

Status WriteItems(os::AtomicFile& file, const McInput& input,
                  const std::vector<eval::McTokens>& items,
                  const std::vector<eval::McRun>& runs) {
  for (size_t i = 0; i < items.size(); ++i) {
    TC_RETURN_IF_ERROR(
        file.Write(eval::FormatMcItem(input.task, items[i], runs, i) + "\n"));
  }
  return file.Commit();
}

Status Run(const McFlags& flags) {
  TC_RETURN_IF_ERROR(RefuseToReplaceInputs(flags));
  TC_ASSIGN_OR_RETURN(const McInput input, ReadInput(flags));
  ProgressLine opening;
  TC_ASSIGN_OR_RETURN(const auto model, OpenForItems(flags, input, opening));
  TC_ASSIGN_OR_RETURN(const auto items, Encode(flags, input, *model));
  TC_ASSIGN_OR_RETURN(const auto plan, PlanModes(flags, model, items, opening));
  TC_ASSIGN_OR_RETURN(const auto modes, OpenModes(model, plan));
  std::unique_ptr<os::AtomicFile> file;
  if (flags.items_file.has_value()) {
    TC_ASSIGN_OR_RETURN(file, os::AtomicFile::Create(*flags.items_file));
  }
  std::vector<eval::McRun> runs;
  for (const McMode& mode : modes) {
    ProgressLine progress;
    TC_ASSIGN_OR_RETURN(auto scores, eval::ScoreMcItems(*mode.session, items,
                                                        "items, " + mode.name,
                                                        progress.callback()));
    progress.Clear();
    WriteStderr(FormatPrefillTimes("prefill device, " + mode.name,
                                   mode.session->prompt_times(),
                                   model->config().layers.size()));
    runs.push_back({mode.name, std::move(scores)});
  }
  // Neither output is lost with the other.
  std::vector<std::string> outputs;
  if (flags.items_file.has_value()) outputs.push_back(*flags.items_file);
  const Status printed =
      WriteReport(eval::FormatMcReport(
                      eval::MakeMcReport(input.task, input.num_examples, runs),
                      flags.format),
                  outputs);
  if (file != nullptr) {
    TC_RETURN_IF_ERROR(WriteItems(*file, input, items, runs));
  }
  return printed;
}

Status StoreModes(const std::string& text,
                  std::vector<engine::FfnMode>& modes) {
  modes.clear();
  // What is split into parts that end at commas, the last one too.
  for (const std::string& name : CLI::detail::split(text + ',', ',')) {
    TC_ASSIGN_OR_RETURN(const engine::FfnMode mode, ParseMode(name));
    if (std::ranges::count(modes, mode) > 0) {
      return Fail(ErrorCode::kInvalidArgument, "'{}' is named twice", name);
    }
    modes.push_back(mode);
  }
  return {};
}

Status StoreFormat(const std::string& text, eval::McFormat& format) {
  if (text == "table") {
    format = eval::McFormat::kTable;
  } else if (text == "csv") {
    format = eval::McFormat::kCsv;
  } else if (text == "json") {
    format = eval::McFormat::kJson;
  } else {
    return NotOneOf(text, "table, csv, json");
  }
  return {};
}

void AddTaskFlags(CLI::App& app, const std::shared_ptr<McFlags>& flags) {
  AddRequiredPath(app, "-f,--file", flags->task_file, "FILE",
                  "Task: one JSON record per line; -: standard input");
  AddInt(app, "--limit", flags->num_items, 1, kMaxItems,
         "Take the first N items only");
  auto* examples =
      AddPath(app, "--shots-file", flags->examples_file, "FILE",
              "Solved examples to put in front of each item, same schema");
  AddInt(app, "--shots", flags->num_examples, 1, kMaxItems,
         "Take the first N examples only")
      ->needs(examples);
  AddParsed(app, "--modes", "MODE,...",
            "Several values of --ffn, side by side, such as dense,fast",
            [flags](const std::string& text) {
              return StoreModes(text, flags->modes);
            })
      ->excludes(app.get_option("--ffn"));
  AddPath(app, "-o,--output", flags->items_file, "FILE",
          "File to write: each item's scores and picks, one JSON object per "
          "line");
  AddParsed(app, "--format", "FORMAT",
            "table, csv or json, to standard output (default table)",
            [flags](const std::string& text) {
              return StoreFormat(text, flags->format);
            });
}

}  // namespace

void AddEvalMcCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<McFlags>();
  CLI::App* app = parent.add_subcommand(
      "mc", "Multiple choice: how often the right answer is the likeliest");
  AddModelFlags(*app, flags->model);
  AddThreadsFlag(*app, flags->session);
  AddContextFlag(*app, flags->session, "as long as the items need");
  AddEngineFlags(*app, flags->model, flags->session);
  AddPrefillDeviceFlags(*app, flags->session.prefill_device);
  AddTaskFlags(*app, flags);
  app->footer(
      "Records are query/choices/gold, context_options/continuation/gold,\n"
      "premise/hypothesis/label, premise/choice1/choice2/question/label,\n"
      "goal/sol1/sol2/label (PIQA), sentence/option1/option2/answer "
      "(WinoGrande)\n"
      "or question/choices/answer (MMLU); see docs/eval.md. acc takes the "
      "choice\n"
      "with the highest log-probability, acc_norm that with the highest per "
      "byte.\n\nExamples:\n"
      "  thermocline eval mc -m model.gguf -f arc_easy.jsonl --limit 200\n"
      "  thermocline eval mc -m sparse.gguf -f copa.jsonl --modes dense,fast "
      "\\\n"
      "      -o items.jsonl");
  app->callback([flags, &action] {
    if (IsStdin(flags->task_file) &&
        IsStdin(flags->examples_file.value_or(""))) {
      throw CLI::ValidationError(
          "--file and --shots-file cannot both be standard input");
    }
    CheckScoresAreUsed(
        flags->model, flags->session.predictor,
        flags->modes.empty() ? std::vector{flags->session.ffn} : flags->modes);
    action = [flags] { return Run(*flags); };
  });
}

}  // namespace thermocline::cli
