// `thermocline bench -np`: how fast several sequences generate together.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/units.h"
#include "bench/sequence_bench.h"
#include "cli/bench_commands.h"
#include "cli/flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMaxSequences = 1024;

// Without a word about -n, which MakeSequenceOptions says.
int64_t ContextFor(const BenchFlags& flags,
                   const BenchPromptFlags& prompt_flags,
                   const std::vector<Prompt>& prompts, int64_t context) {
  if (prompt_flags.path.has_value()) {
    return MostPositions(prompts, TestsOrDefault(prompt_flags), context);
  }
  const int64_t num_prompt =
      flags.prompt_given ? std::ranges::max(flags.prompt_lengths) : 16;
  const int64_t num_generate =
      flags.generate_given ? std::ranges::max(flags.generate_lengths) : 64;
  return std::min(num_prompt + num_generate, context);
}

tl::unexpected<Error> OfSequences(int64_t num_sequences, int64_t context,
                                  const Error& error) {
  return Annotate(
      fmt::format("{} of {} each", Plural(num_sequences, "sequence"),
                  Plural(context, "position")),
      error);
}

Result<std::shared_ptr<const model::Model>> OpenForSequences(
    const BenchFlags& flags, const BenchPromptFlags& prompt_flags,
    const std::vector<Prompt>& prompts, ProgressLine& progress) {
  int64_t context = 0;
  auto model = OpenForBench(flags, progress, [&](const model::Config& config) {
    context = ContextFor(flags, prompt_flags, prompts, config.context_length);
    return context;
  });
  if (model || model.error().code != ErrorCode::kResourceExhausted) {
    return model;
  }
  return OfSequences(std::ranges::max(flags.num_sequences), context,
                     model.error());
}

// Every prompt length with every number of tokens; or the pairs of -pg.
std::vector<bench::PromptTest> TestsOf(const BenchFlags& flags,
                                       const BenchPromptFlags& prompts,
                                       int64_t context) {
  if (prompts.path.has_value()) {
    return TestsOrDefault(prompts);
  }
  std::vector<int64_t> prompt_lengths = flags.prompt_lengths;
  std::vector<int64_t> generate_lengths = flags.generate_lengths;
  if (!flags.prompt_given) prompt_lengths = {16};
  if (!flags.generate_given) generate_lengths = {64};
  CapDefault("-n", flags.generate_given,
             context - std::ranges::max(prompt_lengths), generate_lengths);
  std::vector<bench::PromptTest> tests;
  for (const int64_t num_prompt : prompt_lengths) {
    for (const int64_t num_generate : generate_lengths) {
      tests.push_back({.num_prompt = num_prompt, .num_generate = num_generate});
    }
  }
  return tests;
}

Result<bench::SequenceBenchOptions> MakeSequenceOptions(
    const BenchFlags& flags, const BenchPromptFlags& prompt_flags,
    const std::vector<Prompt>& prompts, const model::Model& model,
    ProgressLine& progress) {
  bench::SequenceBenchOptions options;
  options.num_sequences = flags.num_sequences;
  options.tests = TestsOf(flags, prompt_flags, model.config().context_length);
  if (prompt_flags.path.has_value()) {
    TC_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer,
                        RequireTokenizer(model));
    TC_ASSIGN_OR_RETURN(options.prompts,
                        EncodePrompts(prompt_flags, *tokenizer, prompts));
    options.source = InputName(*prompt_flags.path);
  }
  options.threads.assign(flags.threads.begin(), flags.threads.end());
  options.repetitions = static_cast<int>(flags.repetitions);
  TC_ASSIGN_OR_RETURN(
      options.session,
      MakeSessionOptions(flags.session, model.config(), progress));
  options.progress = progress.callback();
  return options;
}

}  // namespace

void AddSequencesFlag(CLI::App& app, std::vector<int64_t>& num_sequences) {
  AddIntList(app, "--np,--npl,--parallel", num_sequences, 1, kMaxSequences,
             "Sequences that generate together, each behind a prompt of its "
             "own: -p and -n tokens, or with -f as -pg says");
}

void CheckSequencesFlag(const CLI::App& app, const BenchFlags& flags) {
  if (flags.num_sequences.empty()) return;
  for (const char* name : {"--n-depth", "--profile", "--tokens-csv"}) {
    const CLI::Option* option = app.get_option(name);
    if (option->count() == 0) continue;
    throw CLI::ValidationError(DisplayNames(option->get_name(false, true)),
                               "has no effect with -np");
  }
  if (flags.session.device.name == "sim") {
    throw CLI::ValidationError(
        "-np: takes the time of the clock on the wall, of which a simulated "
        "device has none");
  }
  if (std::ranges::min(flags.generate_lengths) == 0) {
    throw CLI::ValidationError("-n 0", "with -np something is generated");
  }
}

Status RunSequences(const BenchFlags& flags,
                    const BenchPromptFlags& prompt_flags) {
  std::vector<Prompt> prompts;
  if (prompt_flags.path.has_value()) {
    TC_ASSIGN_OR_RETURN(const std::string text, ReadText(*prompt_flags.path));
    TC_ASSIGN_OR_RETURN(prompts,
                        ParsePrompts(text, InputName(*prompt_flags.path)));
  }
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model,
                      OpenForSequences(flags, prompt_flags, prompts, progress));
  TC_ASSIGN_OR_RETURN(
      const bench::SequenceBenchOptions options,
      MakeSequenceOptions(flags, prompt_flags, prompts, *model, progress));
  TC_ASSIGN_OR_RETURN(const engine::SessionOptions session,
                      bench::SequenceSession(*model, options));
  const Status fits = CheckBenchFits(*model, session);
  if (!fits.has_value()) {
    return OfSequences(session.num_sequences, session.context, fits.error());
  }
  auto report = bench::RunSequenceBench(model, options);
  progress.Clear();
  TC_RETURN_IF_ERROR(report);
  CompleteSubject(report->subject);
  std::string table = bench::FormatSequenceBench(*report, flags.format);
  if (flags.format == bench::BenchFormat::kMarkdown) {
    table += DescribeBuild(report->subject, *model);
  }
  return WriteStdout(table);
}

}  // namespace thermocline::cli
