// `thermocline prepare`: a model with its neurons as records, and with what
// says early which of them will fire.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/prepare_command_flags.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "convert/pack.h"
#include "training/prepare.h"

namespace thermocline::cli {
namespace {

struct PrepareFlags : FindFlags {
  std::optional<std::string> predictors_path;
  float density = 0;   // 0: not given
  float ppl_cost = 0;  // likewise
  bool no_predictor = false;
  bool for_storage = false;
};

convert::PackOptions MakePackOptions(const PrepareFlags& flags) {
  return {.record_alignment = flags.for_storage ? neuron::kStorageAlignment
                                                : neuron::kRecordAlignment,
          .num_threads = static_cast<int>(flags.session.num_threads),
          .cancel = CancelFlag()};
}

std::string FormatPacked(const convert::PackSummary& packed,
                         const std::string& output) {
  return fmt::format("wrote {}: {}, from {}{}\n", output,
                     FormatBytes(packed.num_bytes),
                     FormatBytes(packed.num_source_bytes),
                     packed.down_error > 0
                         ? fmt::format("; rounding the down columns anew cost "
                                       "an error of {:.4f} %",
                                       100 * packed.down_error)
                         : std::string());
}

Status RunOnText(const PrepareFlags& flags) {
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(FindInputs inputs, OpenFindInputs(flags, progress));
  inputs.options.predictors = !flags.no_predictor;
  inputs.options.free_predictors = !flags.no_predictor;
  if (flags.density > 0) inputs.options.density = double{flags.density};
  if (flags.ppl_cost > 0) inputs.options.max_ppl_cost = double{flags.ppl_cost};
  convert::PackOptions pack = MakePackOptions(flags);
  pack.progress = progress.callback();
  const auto prepared = training::PrepareTo(inputs.model, inputs.corpus,
                                            inputs.options, pack, flags.output);
  progress.Clear();
  TC_RETURN_IF_ERROR(prepared);
  return WriteStdout(FormatFindings(prepared->findings, prepared->is_resumed) +
                     FormatPacked(*prepared->packed, flags.output));
}

// With what `train` found earlier.
Status RunOnParts(const PrepareFlags& flags) {
  std::vector<std::string> inputs = ModelFiles(flags.model.path);
  inputs.push_back(*flags.predictors_path);
  TC_RETURN_IF_ERROR(RefuseToReplaceInput(flags.output, inputs));
  ProgressLine progress(ProgressUnit::kBytes);
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(flags.model, progress));
  TC_ASSIGN_OR_RETURN(
      const auto parts,
      convert::ReadParts(*flags.predictors_path, model->config()));
  convert::PackOptions pack = MakePackOptions(flags);
  pack.progress = progress.callback();
  const auto packed = convert::Pack(*model, parts, flags.output, pack);
  progress.Clear();
  TC_RETURN_IF_ERROR(packed);
  return WriteStdout(FormatPacked(*packed, flags.output));
}

void CheckSources(const PrepareFlags& flags) {
  if (flags.corpus.empty() == flags.predictors_path.has_value()) return;
  throw CLI::ValidationError(
      flags.corpus.empty()
          ? "give a text with --corpus, or predictors with --predictors"
          : "--corpus and --predictors exclude each other");
}

}  // namespace

void AddPrepareCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<PrepareFlags>();
  CLI::App* app = parent.add_subcommand(
      "prepare", "Makes a model ready to compute only the neurons that fire");
  AddFindFlags(*app, flags);
  app->get_option("--corpus")->required(false);
  AddText(*app, "--predictors", flags->predictors_path, "FILE",
          "What 'thermocline train' wrote, instead of --corpus");
  AddFloat(*app, "--density", flags->density, 0.01, 1.0,
           "SiLU and GELU: thresholds that keep this share of the gates");
  AddFloat(*app, "--ppl-cost", flags->ppl_cost, 0.0001, 1.0,
           "SiLU and GELU: thresholds that raise the perplexity by this share "
           "at most (0.01: by 1 %)");
  app->add_flag("--no-predictor", flags->no_predictor,
                "Records and profile alone: for --ffn exact");
  app->add_flag("--for-storage", flags->for_storage,
                "Records at multiples of 4096 bytes, to be read past the page "
                "cache");
  app->footer(
      "One command over a text: which neurons fire, predictors of them, and\n"
      "each neuron's weights side by side, in one file that 'run' computes\n"
      "sparsely. The text should be like what the model will read.\n\n"
      "Examples:\n"
      "  thermocline prepare model.gguf --corpus text.txt -o model.tc.gguf\n"
      "  thermocline prepare silu.gguf --corpus text.txt --ppl-cost 0.01 -o "
      "silu.tc.gguf\n"
      "  thermocline run -m model.tc.gguf -p \"Once upon a time\"");
  app->callback([flags, app, &action] {
    CheckOneModel(*app);
    CheckSources(*flags);
    action = [flags] {
      return flags->predictors_path ? RunOnParts(*flags) : RunOnText(*flags);
    };
  });
}

}  // namespace thermocline::cli
