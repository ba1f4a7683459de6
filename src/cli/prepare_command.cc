// `thermocline prepare`: a model with its neurons as records, and with what
// says early which of them will fire.
#include <fmt/format.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/eval_text_flags.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/prepare_command_flags.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "engine/session.h"
#include "pack/pack.h"
#include "pack/part_file.h"
#include "training/find_options.h"
#include "training/prepare.h"

namespace thermocline::cli {
namespace {

struct PrepareFlags : FindFlags {
  std::optional<std::string> predictors_path;
  std::optional<std::string> down_source_path;
  std::optional<DType> down_type;
  float density = 0;   // 0: not given
  float ppl_cost = 0;  // likewise
  bool no_predictor = false;
  bool no_bundle = false;
  bool for_storage = false;
  bool keeps_order = false;
};

// Another file of the same model, where down columns come from; null if none is
// asked for.
Result<std::shared_ptr<const model::Model>> OpenDownSource(
    const PrepareFlags& flags) {
  if (!flags.down_source_path) return nullptr;
  ModelFlags better = flags.model;
  better.path = *flags.down_source_path;
  better.split_path.reset();
  ProgressLine progress(ProgressUnit::kBytes);
  return OpenModel(better, progress);
}

pack::PackOptions MakePackOptions(const PrepareFlags& flags,
                                  const model::Model* down_source) {
  return {.bundle = !flags.no_bundle,
          .record_alignment = flags.for_storage ? neuron::kStorageAlignment
                                                : neuron::kRecordAlignment,
          .down_dtype = flags.down_type,
          .in_order = flags.for_storage && !flags.keeps_order,
          .down_source = down_source,
          .num_threads = static_cast<int>(flags.session.num_threads),
          .cancel = CancelFlag()};
}

// What is read besides the model and the text.
std::vector<std::string> MoreInputs(const PrepareFlags& flags) {
  std::vector<std::string> inputs;
  if (flags.predictors_path) inputs.push_back(*flags.predictors_path);
  if (flags.down_source_path) {
    for (std::string& path : ModelFiles(*flags.down_source_path)) {
      inputs.push_back(std::move(path));
    }
  }
  return inputs;
}

// Measured against a rounded file, down columns look better than against its
// source, though they are worse: so the line names the file.
std::string FormatPacked(const pack::PackSummary& packed,
                         const PrepareFlags& flags) {
  std::string line = fmt::format("{}: {}, from {}", Wrote(flags.output),
                                 FormatBytes(packed.num_bytes),
                                 FormatBytes(packed.num_source_bytes));
  if (packed.down_error > 0) {
    line += fmt::format(
        "; rounding the down columns of {} cost an error of {:.4f} %",
        WithoutControls(flags.down_source_path.value_or(flags.model.path)),
        100 * packed.down_error);
  }
  line += "\n";
  if (!packed.why_in_number_order.empty()) {
    line +=
        fmt::format("records are in the order of the neurons' numbers: {}\n",
                    packed.why_in_number_order);
  }
  return line;
}

// Thresholds change the answers: no mode takes them unasked.
std::string FormatHowToRun(const pack::PreparedParts& parts,
                           const std::string& output) {
  if (parts.thresholds.empty()) return "";
  return fmt::format(
      "with its thresholds: thermocline run -m {} --ffn threshold\n"
      "(without that flag it runs dense)\n",
      output);
}

Status RunOnText(const PrepareFlags& flags) {
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(FindInputs inputs,
                      OpenFindInputs(flags, MoreInputs(flags), progress));
  TC_ASSIGN_OR_RETURN(const auto down_source, OpenDownSource(flags));
  inputs.options.predictors = !flags.no_predictor;
  inputs.options.training_free = !flags.no_predictor;
  if (flags.density > 0) inputs.options.density = DecimalNear(flags.density);
  if (flags.ppl_cost > 0) {
    inputs.options.max_ppl_cost = DecimalNear(flags.ppl_cost);
  }
  // Before there is a folder of work that other flags would not go on with.
  TC_RETURN_IF_ERROR(training::CheckOptions(*inputs.model, inputs.options));
  pack::PackOptions pack = MakePackOptions(flags, down_source.get());
  pack.progress = progress.callback();
  const auto prepared = training::PrepareTo(inputs.model, inputs.corpus,
                                            inputs.options, pack, flags.output);
  progress.Clear();
  if (!prepared) TellOfWork(prepared.error(), flags.output);
  TC_RETURN_IF_ERROR(prepared);
  return WriteStdout(FormatFindings(prepared->findings, prepared->is_resumed) +
                     FormatPacked(*prepared->packed, flags) +
                     FormatHowToRun(prepared->findings.parts, flags.output));
}

// Refuses parts of another model by the fingerprint that they come with, and
// where that is the same, predictors by the self-test that a session runs.
Status CheckBelong(const model::Model& model,
                   std::shared_ptr<const gguf::File> parts, int num_threads) {
  TC_RETURN_IF_ERROR(pack::CheckPartsAreOf(model, *parts));
  const std::string path = parts->path();
  TC_ASSIGN_OR_RETURN(const auto together, model.WithParts(std::move(parts)));
  if (!together->config().predictor.is_there() &&
      !together->config().has_training_free) {
    return {};
  }
  const auto session =
      engine::Session::Create(together, {.context = 1,
                                         .num_threads = num_threads,
                                         .batch = 1,
                                         .ffn = engine::FfnMode::kFast});
  return session ? Status() : Annotate(path, session.error());
}

// With what `train` found earlier.
Status RunOnParts(const PrepareFlags& flags) {
  std::vector<std::string> inputs =
      InputFilesOf(flags.model, flags.session.device);
  for (std::string& path : MoreInputs(flags)) inputs.push_back(std::move(path));
  TC_RETURN_IF_ERROR(CheckOutput(flags.output, inputs));
  ProgressLine progress(ProgressUnit::kBytes);
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(flags.model, progress));
  TC_ASSIGN_OR_RETURN(const auto down_source, OpenDownSource(flags));
  TC_ASSIGN_OR_RETURN(std::shared_ptr<const gguf::File> file,
                      gguf::File::Open(*flags.predictors_path));
  TC_ASSIGN_OR_RETURN(const auto parts,
                      pack::ReadParts(*file, model->config()));
  TC_RETURN_IF_ERROR(CheckBelong(*model, std::move(file),
                                 static_cast<int>(flags.session.num_threads)));
  pack::PackOptions pack = MakePackOptions(flags, down_source.get());
  pack.progress = progress.callback();
  const auto packed = pack::Pack(*model, parts, flags.output, pack);
  progress.Clear();
  TC_RETURN_IF_ERROR(packed);
  return WriteReport(
      FormatPacked(*packed, flags) + FormatHowToRun(parts, flags.output),
      {flags.output});
}

// What predictors are trained and measured by.
constexpr std::initializer_list<const char*> kTrainingFlags = {
    "--recall",           "--max-candidates", "--lookahead",
    "--report-lookahead", "--steps",          "--seed"};

// A usage error if `flag` is given together with one of `others`.
void CheckExcludes(const CLI::App& app, const char* flag, const char* why,
                   std::initializer_list<const char*> others) {
  if (app.get_option(flag)->count() == 0) return;
  for (const char* other : others) {
    if (app.get_option(other)->count() == 0) continue;
    throw CLI::ValidationError(
        fmt::format("{} and {} exclude each other: {}", flag, other, why));
  }
}

void CheckCombination(const CLI::App& app) {
  if (app.get_option("--corpus")->count() == 0 &&
      app.get_option("--predictors")->count() == 0) {
    throw CLI::ValidationError(
        "give a text with --corpus, or predictors with --predictors");
  }
  const char* is_found = "all that a text tells is found already";
  CheckExcludes(app, "--predictors", is_found,
                {"--corpus", "--max-tokens", "--ctx-size", "--isa", "--density",
                 "--ppl-cost", "--no-predictor"});
  CheckExcludes(app, "--predictors", is_found, kTrainingFlags);
  CheckExcludes(app, "--density", "thresholds are chosen by one of them",
                {"--ppl-cost"});
  for (const char* flag : {"--density", "--ppl-cost"}) {
    const char* no_predictor = "thresholds take the place of predictors";
    CheckExcludes(app, flag, no_predictor, {"--no-predictor"});
    CheckExcludes(app, flag, no_predictor, kTrainingFlags);
  }
  CheckExcludes(app, "--no-predictor", "none is trained or measured",
                kTrainingFlags);
  CheckExcludes(
      app, "--no-bundle", "without records there is none to lay out",
      {"--from-source", "--down-type", "--for-storage", "--bundle-at-load"});
  if (app.get_option("--keep-order")->count() > 0 &&
      app.get_option("--for-storage")->count() == 0) {
    throw CLI::ValidationError(
        "--keep-order goes with --for-storage: other files keep it anyway");
  }
}

void AddRecordFlags(CLI::App& app, PrepareFlags& flags) {
  AddPath(app, "--from-source", flags.down_source_path, "FILE",
          "The same model in a better type: the down columns are rounded from "
          "it, not from what was rounded once already");
  AddParsed(app, "--down-type", "TYPE",
            "Of the down columns, instead of the down matrix's: f16, q8_0, ...",
            [&flags](const std::string& text) -> Status {
              flags.down_type = ParseDType(text);
              if (flags.down_type && InfoOf(*flags.down_type).can_compute) {
                return {};
              }
              return Fail(ErrorCode::kInvalidArgument,
                          "'{}' is no type that models run in", Escape(text));
            });
  app.add_flag("--no-bundle", flags.no_bundle,
               "No records: the FFNs stay as they lie in the model");
  app.add_flag("--for-storage", flags.for_storage,
               "Records at multiples of 4096 bytes, to be read past the page "
               "cache, and neurons that fire together beside each other: they "
               "get other numbers");
  app.add_flag("--keep-order", flags.keeps_order,
               "With --for-storage: neurons keep their numbers and order");
}

}  // namespace

void AddPrepareCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<PrepareFlags>();
  CLI::App* app = parent.add_subcommand(
      "prepare", "Makes a model ready to compute only the neurons that fire");
  AddFindFlags(*app, flags);
  app->get_option("--corpus")->required(false);
  AddPath(*app, "--predictors", flags->predictors_path, "FILE",
          "What 'thermocline train' wrote, instead of --corpus");
  AddFloat(*app, "--density", flags->density, 0.01, 0.99,
           "SiLU and GELU: thresholds that keep this share of the gates");
  AddFloat(*app, "--ppl-cost", flags->ppl_cost, 0.0001, 1.0,
           "SiLU and GELU: thresholds that raise the perplexity by this share "
           "at most (0.01: by 1 %)");
  app->add_flag("--no-predictor", flags->no_predictor,
                "Records and profile alone: for --ffn exact");
  AddRecordFlags(*app, *flags);
  app->footer(
      "One command over a text: which neurons fire, predictors of them, and\n"
      "each neuron's weights side by side, in one file that 'run' computes\n"
      "sparsely. The text should be like what the model will read.\n\n"
      "Examples:\n"
      "  thermocline prepare model.gguf --corpus text.txt -o model.tc.gguf\n"
      "  thermocline prepare silu.gguf --corpus text.txt --ppl-cost 0.01 -o "
      "silu.tc.gguf\n"
      "  thermocline run -m silu.tc.gguf --ffn threshold -p \"Once upon\"\n"
      "  thermocline prepare q4.gguf --corpus text.txt --from-source f16.gguf "
      "-o q4.tc.gguf\n"
      "  thermocline run -m model.tc.gguf -p \"Once upon a time\"");
  app->callback([flags, app, &action] {
    CheckOneModel(*app);
    CheckCombination(*app);
    CheckChunkFlag(flags->session);
    action = [flags] {
      return flags->predictors_path ? RunOnParts(*flags) : RunOnText(*flags);
    };
  });
}

}  // namespace thermocline::cli
