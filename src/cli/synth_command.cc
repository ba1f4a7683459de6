// `thermocline synth`: models of real sizes without meaning, to measure with.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/remedies.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "gguf/gguf.h"
#include "os/thread_pool.h"
#include "synth/activity.h"
#include "synth/synth.h"

namespace thermocline::cli {
namespace {

using synth::SynthLayout;

struct SynthFlags {
  synth::SynthOptions options;
  float density = 0.1f;
  float skew = 0.26f;
  float locality = 0.6f;
  int64_t num_topics = 1;
  int64_t seed = 1;
  std::optional<int64_t> num_layers;
  std::string output;
  std::optional<std::string> powerinfer;
  std::optional<std::string> text;
  int64_t num_words = 0;
  int64_t words_per_line = 0;
  int64_t num_threads = 0;
  bool plain = false;
};

std::vector<std::string> OutputsOf(const SynthFlags& flags) {
  std::vector<std::string> outputs = {flags.output};
  if (flags.powerinfer) outputs.push_back(*flags.powerinfer);
  if (flags.text) outputs.push_back(*flags.text);
  return outputs;
}

std::string DescribePlan(const SynthFlags& flags,
                         const synth::SynthPlan& plan) {
  const std::string model = fmt::format(
      "synthetic like {}, {}: {} of {}, {}\n", plan.shape.name,
      LowerName(plan.options.dtype), Plural(plan.num_layers, "layer"),
      Plural(plan.shape.num_neurons(), "neuron"), plan.Describe());
  const std::string note =
      plan.shape.note.empty()
          ? ""
          : fmt::format("{}: {}\n", plan.shape.name, plan.shape.note);
  const bool writes_predictor =
      plan.options.with_predictor && (!flags.plain || flags.powerinfer);
  if (!writes_predictor) return model + note;
  return model + note +
         fmt::format(
             "predictor: rank {} in q8_0, {} {}, {:.1f} % of the FFN's {}; {} "
             "candidates for each neuron that fires\n",
             plan.rank, FormatBytes(plan.predictor_bytes),
             plan.shape.num_experts > 0 ? "an expert in use" : "a layer",
             100.0 * static_cast<double>(plan.predictor_bytes) /
                 static_cast<double>(plan.ffn_bytes),
             FormatBytes(plan.ffn_bytes), synth::kCandidateRatio);
}

Status WriteModel(const SynthFlags& flags, const synth::SynthWeights& weights,
                  SynthLayout layout, const std::string& output) {
  ProgressLine progress(ProgressUnit::kBytes);
  return synth::WriteSynthModel(
      weights, layout, output,
      {.num_threads = static_cast<int>(flags.num_threads),
       .cancel = CancelFlag(),
       .progress = progress.callback()});
}

// What is to be made. An error lies in the flags: they are all that decides.
Result<synth::SynthPlan> PlanOf(const SynthFlags& flags) {
  synth::SynthOptions options = flags.options;
  options.density = DecimalNear(flags.density);
  options.skew = DecimalNear(flags.skew);
  options.locality = DecimalNear(flags.locality);
  options.num_topics = static_cast<uint64_t>(flags.num_topics);
  options.seed = static_cast<uint64_t>(flags.seed);
  if (flags.num_layers) {
    options.num_layers = static_cast<uint64_t>(*flags.num_layers);
  }
  TC_ASSIGN_OR_RETURN(synth::SynthPlan plan, synth::PlanSynth(options));
  if (flags.powerinfer) TC_RETURN_IF_ERROR(synth::CheckPowerInfer(plan));
  return plan;
}

Status Run(const SynthFlags& flags, const synth::SynthPlan& plan) {
  TC_RETURN_IF_ERROR(CheckOutputs(OutputsOf(flags), {}));
  const synth::SynthWeights weights(plan);
  TC_RETURN_IF_ERROR(
      WriteModel(flags, weights,
                 flags.plain ? SynthLayout::kPlain : SynthLayout::kPrepared,
                 flags.output));
  if (flags.powerinfer) {
    TC_RETURN_IF_ERROR(WriteModel(flags, weights, SynthLayout::kPowerInfer,
                                  *flags.powerinfer));
  }
  if (flags.text) {
    TC_RETURN_IF_ERROR(synth::WriteSynthText(
        weights, static_cast<uint64_t>(flags.num_words),
        static_cast<uint64_t>(flags.words_per_line), *flags.text));
  }
  std::string report = DescribePlan(flags, weights.plan());
  for (const std::string& output : OutputsOf(flags)) {
    report += Wrote(output) + "\n";
  }
  return WriteReport(report, OutputsOf(flags));
}

// A number from 0 to 1 that may be absent.
void AddShare(CLI::App& app, const std::string& name,
              std::optional<double>& share, const std::string& description) {
  AddParsed(app, name, "X", description,
            [&share](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(share, ParseFloat(text, 0.0, 1.0));
              return {};
            });
}

void AddActivityFlags(CLI::App& app, SynthFlags& flags) {
  AddFloat(app, "--density", flags.density, 0.0, 1.0,
           "Share of the neurons that fire for a token (default 0.1)");
  AddFloat(app, "--skew", flags.skew, 0.0, 1.0,
           "Share of the neurons that makes 80 % of all activations (default "
           "0.26)");
  AddFloat(app, "--locality", flags.locality, 0.0, 1.0,
           "Share of a token's active neurons that fired for the token before "
           "(default 0.6)");
  AddShare(app, "--expert-skew", flags.options.expert_skew,
           "Of a mixture: share of the experts that makes 80 % of all choices "
           "(default: all are as busy)");
  AddShare(app, "--expert-locality", flags.options.expert_locality,
           "Of a mixture: share of a token's experts that the token before had "
           "(default: what the neurons' locality gives)");
  AddInt(app, "--topics", flags.num_topics, 1, int64_t{synth::kMaxSynthTopics},
         "Texts run through N topics; in each others of the neurons, and of "
         "experts with a skew, are busy (default 1)");
  AddInt(app, "--seed", flags.seed, 0, INT64_MAX,
         "The same seed and flags give the same bytes (default 1)");
}

}  // namespace

void AddSynthCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<SynthFlags>();
  CLI::App* app = parent.add_subcommand(
      "synth",
      "Makes a model of a real size that means nothing, to measure "
      "sparse speed");
  AddParsed(*app, "--like", "NAME", "Shape: " + synth::ListSynthShapes(),
            [flags](const std::string& name) -> Status {
              flags->options.like = name;
              return {};
            })
      ->required();
  AddDType(*app, "--type", flags->options.dtype,
           {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K,
            DType::kQ6_K},
           "Type of the matrices: f32, f16, q8_0, q4_0, q4_k, q6_k (default "
           "q4_0)");
  AddActivityFlags(*app, *flags);
  AddInt(*app, "--layers", flags->num_layers, 1, 1024,
         "Fewer layers than the shape has");
  AddRequiredPath(*app, "-o,--output", flags->output, "FILE",
                  "Prepared model to write, with records and predictors; "
                  "replaced only when all went well");
  app->add_flag("--plain", flags->plain,
                "Write llama.cpp's layout instead, without predictors");
  app->add_flag_callback(
      "--no-predictor", [flags] { flags->options.with_predictor = false; },
      "Write records without predictors, for exact");
  app->add_flag_callback(
      "--for-storage", [flags] { flags->options.for_storage = true; },
      "Records at multiples of 4096 bytes, all with their gate");
  AddPath(*app, "--powerinfer", flags->powerinfer, "FILE",
          "Also write the same weights as PowerInfer's file (f16, q4_0)");
  auto* text = AddPath(*app, "--text", flags->text, "FILE",
                       "Also write a text in the model's words, one token "
                       "each: for profile and eval");
  flags->num_words = 4096;
  AddInt(*app, "--words", flags->num_words, 1, int64_t{1} << 24,
         "Words of that text (default 4096)")
      ->needs(text);
  AddInt(*app, "--text-lines", flags->words_per_line, 0, int64_t{1} << 24,
         "Words of each of its lines, so that they are prompts for bench and "
         "trace; 0: all in one line, for profile and eval (default 0)")
      ->needs(text);
  AddInt(*app, "-t,--threads", flags->num_threads, 0,
         os::ThreadPool::kMaxThreads,
         "Threads; 0: one per physical core (default 0)");
  app->footer("Not as in the original:\n" + synth::ListSynthNotes() +
              "\nExamples:\n"
              "  thermocline synth --like llama-7b -o S.gguf --text S.txt\n"
              "  thermocline synth --like llama-1b --type q4_0 --density 0.1 "
              "--seed 2 -o S.gguf --powerinfer S.powerinfer.gguf");
  app->callback([flags, &action] {
    if (flags->plain && flags->options.for_storage) {
      throw CLI::ValidationError(
          "--for-storage has no effect with --plain: there are no records");
    }
    Result<synth::SynthPlan> plan = PlanOf(*flags);
    if (!plan) throw CLI::ValidationError(Explain(plan.error()));
    action = [flags, plan = *std::move(plan)] { return Run(*flags, plan); };
  });
}

}  // namespace thermocline::cli
