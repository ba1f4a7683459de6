#include "cli/prepare_command_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "cli/encode_text.h"
#include "cli/eval_commands.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/planned_storage.h"
#include "cli/standard_io.h"
#include "os/file.h"
#include "training/work_folder.h"

namespace thermocline::cli {
namespace {

// How much of the recall that was asked for may be given up for fewer
// candidates.
constexpr double kRecallToGive = 0.02;

// Of a layer's neurons: with more candidates the test of every gate, in
// sequence, is faster. Measured on one Xeon with llama-1b in Q4_0, where 40 %
// still gained and 51 % lost (docs/perf/cpu.md, "When a predictor pays").
constexpr double kCandidatesThatPay = 0.43;

Result<training::FindOptions> MakeFindOptions(const FindFlags& flags,
                                              const model::Config& config,
                                              ProgressLine& progress) {
  training::FindOptions options;
  options.corpus_name = InputFileName(flags.corpus);
  TC_ASSIGN_OR_RETURN(options.session,
                      MakeSessionOptions(flags.session, config, progress));
  const double recall = DecimalNear(flags.recall);
  options.goal = {.recall = recall,
                  .recall_floor = std::max(recall - kRecallToGive, 0.0),
                  .max_candidates = double{flags.max_candidates}};
  options.lookahead = flags.lookahead;
  options.grouping = flags.grouping;
  options.seed = static_cast<uint64_t>(flags.seed);
  options.num_steps = static_cast<size_t>(flags.num_steps);
  options.reports_ahead = flags.reports_ahead;
  options.progress = progress.callback();
  return options;
}

// Of the FFNs that tokens go through.
double MeanDensity(const training::Findings& findings) {
  double sum = 0;
  for (const auto& layer : findings.layers) sum += layer.density;
  return sum / static_cast<double>(findings.layers.size());
}

std::string FormatProfileRows(const training::Findings& findings) {
  std::string out = fmt::format(
      "{}: {:.1f} % of the neurons{} fire\n\n"
      "layer  density %  skew %  locality %\n",
      Plural(findings.profile.num_tokens(), "token"),
      100 * MeanDensity(findings),
      findings.is_mixture ? " of a token's experts" : "");
  for (size_t i = 0; i < findings.layers.size(); ++i) {
    const training::LayerFindings& layer = findings.layers[i];
    out += fmt::format(
        "{:>5} {:>10.2f} {:>7.1f} {:>11}\n", i, 100 * layer.density,
        100 * layer.skew,
        layer.locality ? fmt::format("{:.1f}", 100 * *layer.locality) : "-");
  }
  return out;
}

// Of groups that are moved together.
std::string FormatOrder(const training::Findings& findings) {
  double fired = 0;
  double as_they_lie = 0;
  for (const training::LayerFindings& layer : findings.layers) {
    fired += layer.fired_per_group;
    as_they_lie += layer.fired_per_group_as_they_lie;
  }
  if (fired == 0) return "";
  const auto num_layers = static_cast<double>(findings.layers.size());
  return fmt::format(
      "\norder of the neurons, in groups of {}: where one of a group fires, "
      "{:.2f} do\n(as they lie {:.2f}; held-out text, mean of the layers)\n",
      findings.parts.order_group_size, fired / num_layers,
      as_they_lie / num_layers);
}

std::string FormatPredictor(size_t layer_idx,
                            const training::PredictorFindings& found,
                            uint64_t ffn_bytes) {
  const double share = ffn_bytes == 0
                           ? 0.0
                           : 100.0 * static_cast<double>(found.num_bytes) /
                                 static_cast<double>(ffn_bytes);
  return fmt::format("{:>5} {:>5} {:>10} {:>6.1f} {:>9.2f} {:>12.1f} {:>17.2f}",
                     layer_idx, found.rank, FormatBytes(found.num_bytes), share,
                     100 * found.recall, 100 * found.precision,
                     found.candidates_per_fired);
}

constexpr std::string_view kPredictorHead =
    "layer  rank      bytes  % FFN  recall %  precision %  candidates/fired";

// What to do where predictors name so much that reading it costs more than they
// save.
std::string FormatWhetherTheyPay(const training::Findings& findings) {
  double sum = 0;
  double num_layers = 0;
  for (const training::LayerFindings& layer : findings.layers) {
    if (layer.trained.rank == 0) continue;
    sum += layer.density * layer.trained.candidates_per_fired;
    ++num_layers;
  }
  if (sum <= kCandidatesThatPay * num_layers) return "";
  return fmt::format(
      "{:.0f} % of the neurons are candidates: from memory a file of 'prepare "
      "--no-predictor',\nwith --ffn exact, is likely to be faster\n",
      100 * sum / num_layers);
}

std::string FormatTrained(const training::Findings& findings) {
  if (findings.parts.predictors.empty()) return "";
  std::string out =
      fmt::format("\ntrained predictors ({}), on held-out text\n{}\n",
                  findings.parts.lookahead == 0 ? "input of the same layer"
                                                : "input of the layer before",
                  kPredictorHead);
  for (size_t i = 0; i < findings.layers.size(); ++i) {
    const training::LayerFindings& layer = findings.layers[i];
    out += layer.trained.rank == 0
               ? fmt::format("{:>5}  none: {}", i, layer.reason)
               : FormatPredictor(i, layer.trained, layer.ffn_bytes);
    out += "\n";
  }
  return out + FormatWhetherTheyPay(findings);
}

std::string FormatTrainingFreeOf(size_t layer_idx,
                                 const training::LayerFindings& layer) {
  if (layer.free_sign_candidates_per_fired == 0) {
    return fmt::format("{:>5}  none: nothing fired in held-out text",
                       layer_idx);
  }
  if (layer.free.num_bytes == 0) {
    return fmt::format("{:>5}  none: nearly every neuron would pass",
                       layer_idx);
  }
  return FormatPredictor(layer_idx, layer.free, layer.ffn_bytes) +
         fmt::format(" {:>14.2f}", layer.free_sign_candidates_per_fired);
}

std::string FormatTrainingFree(const training::Findings& findings) {
  if (findings.parts.training_free.empty()) return "";
  std::string out = fmt::format(
      "\ntraining-free predictors, on held-out text\n{}  (signs alone)\n",
      kPredictorHead);
  for (size_t i = 0; i < findings.layers.size(); ++i) {
    out += FormatTrainingFreeOf(i, findings.layers[i]) + "\n";
  }
  return out;
}

std::string FormatAhead(const training::Findings& findings) {
  if (std::ranges::all_of(findings.layers, [](const auto& layer) {
        return layer.recall_ahead.empty();
      })) {
    return "";
  }
  std::string out =
      "\nrecall % of short trainings with the input of an earlier layer, as "
      "many candidates\nlayer      own  1 before  2 before  3 before\n";
  for (size_t i = 0; i < findings.layers.size(); ++i) {
    out += fmt::format("{:>5}", i);
    for (const double recall : findings.layers[i].recall_ahead) {
      out += fmt::format(" {:>9.2f}", 100 * recall);
    }
    out += "\n";
  }
  return out;
}

std::string FormatThresholds(const training::Findings& findings) {
  if (findings.parts.thresholds.empty()) return "";
  std::string out =
      findings.threshold_density
          ? fmt::format("\nthresholds for a density of {:.1f} %\n",
                        100 * *findings.threshold_density)
          : std::string("\nthresholds\n");
  if (findings.dense_perplexity && findings.threshold_perplexity) {
    out += fmt::format(
        "perplexity of held-out text {:.4f}, dense {:.4f} ({:+.2f} %)\n",
        *findings.threshold_perplexity, *findings.dense_perplexity,
        100 *
            (*findings.threshold_perplexity / *findings.dense_perplexity - 1));
  }
  for (size_t i = 0; i < findings.parts.thresholds.size(); ++i) {
    out += fmt::format("{:>5} {:>12.5g}\n", i, findings.parts.thresholds[i]);
  }
  return out;
}

// What is finished is kept in a folder beside the output, which only a file in
// a folder has a place for.
Status CheckResumable(const std::string& output) {
  std::error_code ignored;
  if (!std::filesystem::is_other(output, ignored) &&
      !os::IsStandardOutput(output)) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "{}: is a device, a pipe or standard output, and {} beside it "
              "cannot keep what is finished: choose a file's name",
              output, training::WorkFolder::PathFor(output));
}

// How predictors are trained and the order is found.
void AddPartFlags(CLI::App& app, const std::shared_ptr<FindFlags>& flags) {
  AddInt(app, "--lookahead", flags->lookahead, 0, 1,
         "Layers before its own whose input a trained predictor reads: 1 "
         "leaves time to fetch what it names (default 0)");
  AddParsed(app, "--groups", "HOW",
            "How the order of the neurons is found, in which those that fire "
            "together are neighbours: greedy (default), or metis (KAIROX; "
            "needs libmetis5)",
            [flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags->grouping,
                                  planner::ParseGrouping(text));
              return {};
            });
  AddInt(app, "--steps", flags->num_steps, 20, 1000000,
         "Batches of 256 samples that a predictor is trained with (default "
         "800)");
  AddInt(app, "--seed", flags->seed, 0, INT64_MAX,
         "Of the training (default 0)");
  app.add_flag("--report-lookahead", flags->reports_ahead,
               "Also measure the recall with the inputs of 1, 2 and 3 layers "
               "before");
}

}  // namespace

void AddFindFlags(CLI::App& app, const std::shared_ptr<FindFlags>& flags) {
  AddRequiredPath(app, "MODEL", flags->model.path, "", "GGUF model")
      ->required(false);
  AddModelFlags(app, flags->model);
  app.get_option("--model")->required(false);
  AddRequiredPath(app, "--corpus", flags->corpus, "FILE",
                  "Text to learn from, like what the model will read; -: "
                  "standard input");
  AddRequiredPath(app, "-o,--output", flags->output, "FILE",
                  "File to write; until it is done, FILE.work keeps what was "
                  "finished, and the same command goes on from there");
  AddInt(app, "-n,--max-tokens", flags->max_tokens, 4096, int64_t{1} << 31,
         "The most tokens of the text to read, in chunks at even distances "
         "(default 131072, or 16 chunks if these are more)");
  AddFloat(app, "--recall", flags->recall, 0.5, 1.0,
           "Share of the neurons that fire to find; up to 0.02 of it is given "
           "up to keep the candidates few (default 0.99)");
  AddFloat(app, "--max-candidates", flags->max_candidates, 1.0, 100.0,
           "Candidates per neuron that fires from which on recall is given up "
           "(default 1.5)");
  AddPartFlags(app, flags);
  AddObservedSessionFlags(app, flags->session,
                          "256, or the model's if that is less");
}

Result<FindInputs> OpenFindInputs(const FindFlags& flags,
                                  std::span<const std::string> more_inputs,
                                  ProgressLine& progress) {
  std::vector<std::string> inputs =
      InputFilesOf(flags.model, flags.session.device);
  inputs.push_back(flags.corpus);
  inputs.insert(inputs.end(), more_inputs.begin(), more_inputs.end());
  TC_RETURN_IF_ERROR(CheckOutput(flags.output, inputs));
  TC_RETURN_IF_ERROR(CheckResumable(flags.output));
  TC_RETURN_IF_ERROR(
      RefuseStoragePlan(flags.session, "training reads all weights"));
  TC_ASSIGN_OR_RETURN(const LongText text, LongText::Open(flags.corpus));
  TC_ASSIGN_OR_RETURN(auto model, OpenModel(flags.model, progress));
  TC_ASSIGN_OR_RETURN(auto corpus,
                      EncodeCorpus(*model, text.text(), InputName(flags.corpus),
                                   {.chunk = flags.session.context,
                                    .max_tokens = flags.max_tokens}));
  TC_ASSIGN_OR_RETURN(auto options,
                      MakeFindOptions(flags, model->config(), progress));
  return FindInputs{.model = std::move(model),
                    .corpus = std::move(corpus),
                    .options = std::move(options)};
}

void TellOfWork(const Error& error, const std::string& output) {
  const std::string work = training::WorkFolder::PathFor(output);
  std::error_code ignored;
  const bool is_interrupt = error.code == ErrorCode::kCancelled;
  const bool may_go_on = is_interrupt || error.code == ErrorCode::kIo ||
                         error.code == ErrorCode::kResourceExhausted;
  if (!may_go_on || !std::filesystem::is_directory(work, ignored)) return;
  if (training::WorkFolder::IsEmptyAt(work)) {
    if (!is_interrupt) return;
    LogInfo(
        "nothing is finished yet; {} keeps the place: the same command begins "
        "anew there",
        work);
    return;
  }
  LogInfo("{} holds what is finished: the same command goes on from there",
          work);
}

std::string FormatFindings(const training::Findings& findings,
                           bool is_resumed) {
  std::string out;
  if (is_resumed) {
    out += fmt::format("went on from an interrupted run: {} of {} done\n",
                       findings.num_layers_kept,
                       Plural(findings.layers.size(), "layer"));
  }
  out += FormatProfileRows(findings);
  if (!findings.no_predictors.empty()) {
    out += fmt::format("\nno predictors: {}\n", findings.no_predictors);
  }
  out += FormatOrder(findings) + FormatTrained(findings) +
         FormatTrainingFree(findings) + FormatAhead(findings) +
         FormatThresholds(findings);
  if (!findings.stages.empty()) out += "\n";
  for (const training::Stage& stage : findings.stages) {
    out += fmt::format("{:<28} {:>8.1f} s\n", stage.name, stage.seconds);
  }
  return out;
}

}  // namespace thermocline::cli
