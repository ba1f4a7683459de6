// `thermocline train`: predictors of which neurons will fire.
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/eval_text_flags.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/prepare_command_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "training/prepare.h"

namespace thermocline::cli {
namespace {

Status Run(const FindFlags& flags) {
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const FindInputs inputs,
                      OpenFindInputs(flags, {}, progress));
  const auto prepared = training::TrainTo(inputs.model, inputs.corpus,
                                          inputs.options, flags.output);
  progress.Clear();
  if (!prepared) TellOfWork(prepared.error(), flags.output);
  TC_RETURN_IF_ERROR(prepared);
  return WriteStdout(FormatFindings(prepared->findings, prepared->is_resumed) +
                     Wrote(flags.output) + "\n");
}

}  // namespace

void AddTrainCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<FindFlags>();
  CLI::App* app = parent.add_subcommand(
      "train", "Trains predictors of which neurons of a model will fire");
  AddFindFlags(*app, flags);
  app->footer(
      "For models of the ReLU family. The file holds predictors without the\n"
      "model; 'thermocline prepare' takes it with --predictors.\n\n"
      "Examples:\n"
      "  thermocline train model.gguf --corpus text.txt -o model.pred.gguf\n"
      "  thermocline train model.gguf --corpus text.txt --lookahead 1 "
      "--report-lookahead -o model.pred.gguf");
  app->callback([flags, app, &action] {
    CheckOneModel(*app);
    CheckChunkFlag(flags->session);
    action = [flags] { return Run(*flags); };
  });
}

}  // namespace thermocline::cli
