#include "bench/sequence_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/units.h"
#include "bench/roof_probe.h"
#include "bench/samples.h"
#include "bench/sequence_group.h"
#include "bench/token_progress.h"
#include "bench/workload.h"
#include "engine/weight_bytes.h"
#include "model/weight_bytes.h"

namespace thermocline::bench {
namespace {

// A test, with a story for each of the most sequences.
struct SequenceTask {
  PromptTest test;
  int64_t num_passes = 0;
  size_t num_prompts = 0;  // different ones of a file
  std::vector<SequenceStory> stories;

  int64_t num_positions() const {
    size_t longest = 0;
    for (const SequenceStory& story : stories) {
      longest = std::max(longest, story.prompt.size());
    }
    return static_cast<int64_t>(longest) + num_passes;
  }
  double mean_prompt(int64_t num_sequences) const {
    double total = 0.0;
    for (int64_t i = 0; i < num_sequences; ++i) {
      total +=
          static_cast<double>(stories[static_cast<size_t>(i)].prompt.size());
    }
    return total / static_cast<double>(num_sequences);
  }
};

Status CheckOptions(const SequenceBenchOptions& options) {
  if (options.repetitions < 1 || options.tests.empty() ||
      options.num_sequences.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "bench: {} of {} with {} measure nothing",
                Plural(options.repetitions, "repetition"),
                Plural(options.tests.size(), "test"),
                Plural(options.num_sequences.size(), "number"));
  }
  for (const int64_t num_sequences : options.num_sequences) {
    if (num_sequences < 1) {
      return Fail(ErrorCode::kInvalidArgument,
                  "bench -np {}: there is at least one sequence",
                  num_sequences);
    }
    if (num_sequences > options.session.batch) {
      return Fail(ErrorCode::kInvalidArgument,
                  "bench -np {}: no more than {} are computed together (-b)",
                  num_sequences, Plural(options.session.batch, "token"));
    }
  }
  return {};
}

Status CheckFixed(const PromptTest& test, int64_t context) {
  if (test.num_prompt < 0 || test.num_generate < 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "bench: {} generated behind a prompt of {} are no test",
                Plural(test.num_generate, "token"), test.num_prompt);
  }
  if (test.num_generate <= context &&
      test.num_prompt <= context - test.num_generate) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "bench: test {} needs {} positions, but the model's context is "
              "{}; give a smaller -p or -n",
              test.name(), test.num_prompt + test.num_generate, context);
}

// Other ids in every sequence: stretches of one walk through the vocabulary.
Result<SequenceTask> MakeFixed(const PromptTest& test, int64_t num_sequences,
                               const model::Config& config) {
  TC_RETURN_IF_ERROR(CheckFixed(test, config.context_length));
  SequenceTask task = {
      .test = test, .num_passes = test.num_generate, .stories = {}};
  const int64_t length = test.num_prompt + test.num_generate;
  for (int64_t i = 0; i < num_sequences; ++i) {
    task.stories.push_back(
        {.prompt = FixedTokens(test.num_prompt, config.vocab_size, i * length),
         .generated = FixedTokens(test.num_generate, config.vocab_size,
                                  i * length + test.num_prompt)});
  }
  return task;
}

Result<SequenceTask> MakeOfPrompts(const PromptTest& test,
                                   int64_t num_sequences,
                                   const SequenceBenchOptions& options,
                                   int64_t context) {
  TC_ASSIGN_OR_RETURN(
      const std::vector<PickedPrompt> picked,
      PickPrompts(options.prompts, test, context, options.source));
  SequenceTask task = {.test = test,
                       .num_passes = test.num_generate - 1,
                       .num_prompts = picked.size(),
                       .stories = {}};
  for (size_t i = 0; std::cmp_less(i, num_sequences); ++i) {
    const auto prompt = picked[i % picked.size()].tokens;
    task.stories.push_back(
        {.prompt = {prompt.begin(), prompt.end()}, .generated = {}});
  }
  return task;
}

Result<std::vector<SequenceTask>> MakeTasks(
    const model::Model& model, const SequenceBenchOptions& options) {
  TC_RETURN_IF_ERROR(CheckOptions(options));
  const int64_t most = std::ranges::max(options.num_sequences);
  const model::Config& config = model.config();
  std::vector<SequenceTask> tasks;
  for (const PromptTest& test : options.tests) {
    TC_ASSIGN_OR_RETURN(
        SequenceTask task,
        options.prompts.empty()
            ? MakeFixed(test, most, config)
            : MakeOfPrompts(test, most, options, config.context_length));
    tasks.push_back(std::move(task));
  }
  return tasks;
}

engine::SessionOptions SessionOf(const std::vector<SequenceTask>& tasks,
                                 const SequenceBenchOptions& options,
                                 int num_threads) {
  engine::SessionOptions session = options.session;
  session.num_threads = num_threads;
  session.num_sequences = std::ranges::max(options.num_sequences);
  session.context = 0;
  for (const SequenceTask& task : tasks) {
    session.context = std::max(session.context, task.num_positions());
  }
  return session;
}

// Of all, without what is made up for.
uint64_t NumTokens(const std::vector<SequenceTask>& tasks,
                   const SequenceBenchOptions& options) {
  const auto num_runs = static_cast<uint64_t>(options.repetitions) + 1;
  uint64_t num_tokens = 0;
  for (const SequenceTask& task : tasks) {
    const auto num_passes = static_cast<uint64_t>(task.num_passes);
    for (const SequenceStory& story : task.stories) {
      num_tokens += story.prompt.size() + num_passes;
    }
    for (const int64_t num_sequences : options.num_sequences) {
      num_tokens +=
          static_cast<uint64_t>(num_sequences) * num_passes * num_runs;
    }
  }
  return num_tokens * std::max<size_t>(options.threads.size(), 1);
}

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

// What a pass reads; `totals` are those of the row's passes.
void CountBytes(const model::Model& model, engine::FfnMode ffn,
                const engine::SessionOptions& session,
                const engine::SparseTotals& totals, SequenceRow& row) {
  const auto num_rows = static_cast<uint64_t>(row.num_sequences);
  row.is_sparse = ffn != engine::FfnMode::kDense;
  row.weight_bytes_per_pass =
      row.is_sparse ? model::FixedWeightBytes(model.weights(), num_rows) +
                          totals.num_bytes / totals.num_passes
                    : engine::WeightBytesPerBatch(
                          model, ffn, engine::PredictorChoice::kNone, num_rows);
  row.bytes_are_bound = !row.is_sparse && num_rows > 1 &&
                        model::CommonFfn(model.config()).num_experts > 0;
  // Pass i of N reads the rows of P + i positions; i is (N + 1) / 2 on average.
  const double mean_positions =
      row.mean_prompt + (static_cast<double>(row.num_passes) + 1.0) / 2.0;
  row.kv_bytes_per_token = static_cast<uint64_t>(
      mean_positions *
      static_cast<double>(engine::KvBytesPerToken(model.config(), session, 0)));
  row.bytes_per_token =
      row.weight_bytes_per_pass / num_rows + row.kv_bytes_per_token;
  row.candidate_share = Share(totals.num_candidates, totals.num_neurons);
  row.open_share = Share(totals.num_open, totals.num_neurons);
  row.union_candidate_share =
      Share(totals.num_union_candidates, totals.num_union_neurons);
  row.union_open_share = Share(totals.num_union_open, totals.num_union_neurons);
}

// Requires samples and bytes.
void Summarise(const std::vector<double>& seconds, SequenceRow& row) {
  const auto num_tokens =
      static_cast<double>(row.num_sequences * row.num_passes);
  for (const double one : seconds) {
    row.samples_ns.push_back(static_cast<uint64_t>(std::llround(one * 1e9)));
    row.tokens_per_s.push_back(num_tokens / one);
  }
  row.mean = MomentsOf(row.tokens_per_s).mean;
  row.stddev = MomentsOf(row.tokens_per_s).stddev;
  row.median = MedianOf(row.tokens_per_s);
  row.gb_per_s = row.median * static_cast<double>(row.bytes_per_token) / 1e9;
}

class SequenceBench {
 public:
  SequenceBench(std::shared_ptr<const model::Model> model,
                const SequenceBenchOptions& options,
                std::vector<SequenceTask> tasks)
      : model_(std::move(model)),
        options_(options),
        tasks_(std::move(tasks)),
        progress_(options.progress, NumTokens(tasks_, options)) {}

  // Adds the rows of one thread count.
  Status RunOn(int num_threads, SequenceBenchReport& report) {
    const engine::SessionOptions session =
        SessionOf(tasks_, options_, num_threads);
    TC_ASSIGN_OR_RETURN(const auto group,
                        SequenceGroup::Create(model_, session, &progress_));
    report.subject.ffn = NameOf(group->runtime().engine().ffn());
    TC_ASSIGN_OR_RETURN(
        auto probe,
        CreateRoofProbe(*model_, group->runtime().pool().num_threads(),
                        LargestPassBytes(*group, session)));
    double roof = 0.0;
    const size_t first_row = report.rows.size();
    for (const SequenceTask& task : tasks_) {
      progress_.Mute(false);
      TC_RETURN_IF_ERROR(
          Named(task, {}, group->Start(task.stories, task.num_passes)));
      for (const int64_t num_sequences : options_.num_sequences) {
        TC_ASSIGN_OR_RETURN(SequenceRow row,
                            RunRow(*group, task, num_sequences, probe, roof));
        report.rows.push_back(std::move(row));
      }
    }
    for (size_t i = first_row; i < report.rows.size(); ++i) {
      report.rows[i].roof_gb_per_s = roof;
    }
    return {};
  }

 private:
  // Every neuron computed.
  uint64_t LargestPassBytes(const SequenceGroup& group,
                            const engine::SessionOptions& session) const {
    const auto num_rows = static_cast<uint64_t>(session.num_sequences);
    const engine::Engine& engine = group.runtime().engine();
    return engine::WeightBytesPerBatch(*model_, engine.ffn(),
                                       engine.predictor(), num_rows) +
           num_rows * engine::KvBytesPerToken(model_->config(), session,
                                              session.context - 1);
  }

  // A row without the roof; raises `roof` to what the probe finds.
  Result<SequenceRow> RunRow(SequenceGroup& group, const SequenceTask& task,
                             int64_t num_sequences, probe::ReadProbe& probe,
                             double& roof) {
    const engine::Engine& engine = group.runtime().engine();
    SequenceRow row;
    row.test = task.test;
    row.num_sequences = num_sequences;
    row.num_threads = group.runtime().pool().num_threads();
    row.num_passes = task.num_passes;
    row.num_prompts =
        std::min(task.num_prompts, static_cast<size_t>(num_sequences));
    row.mean_prompt = task.mean_prompt(num_sequences);
    row.in_cache = IsInCache(*model_);

    const engine::SparseTotals before = engine.sparse_totals();
    TC_RETURN_IF_ERROR(RunOnce(group, task, num_sequences, "the warm-up"));
    const auto num_wanted = static_cast<size_t>(options_.repetitions);
    std::vector<double> rates;
    std::vector<double> seconds;
    while (NeedsMore(rates, roof, num_wanted)) {
      progress_.Mute(rates.size() >= num_wanted);
      TC_ASSIGN_OR_RETURN(const double rate, probe.Measure(kProbeRounds));
      TC_ASSIGN_OR_RETURN(
          const double sample,
          RunOnce(group, task, num_sequences,
                  fmt::format("repetition {}", rates.size() + 1)));
      rates.push_back(rate);
      seconds.push_back(sample);
      roof = std::max(roof, rate);
    }
    progress_.Mute(false);
    std::vector<double> chosen;
    for (const size_t i : ChooseRepetitions(rates, roof, num_wanted)) {
      chosen.push_back(seconds[i]);
    }
    row.num_dropped = static_cast<int>(seconds.size() - chosen.size());
    CountBytes(*model_, engine.ffn(), options_.session,
               engine.sparse_totals() - before, row);
    Summarise(chosen, row);
    return row;
  }

  static Result<double> RunOnce(SequenceGroup& group, const SequenceTask& task,
                                int64_t num_sequences,
                                const std::string& when) {
    auto seconds = group.Generate(static_cast<size_t>(num_sequences));
    return Named(task, fmt::format(" -np {}, {}", num_sequences, when),
                 std::move(seconds));
  }

  // Wrong logits say in which test.
  template <typename Outcome>
  static Outcome Named(const SequenceTask& task, const std::string& when,
                       Outcome outcome) {
    if (outcome.has_value() || outcome.error().code != ErrorCode::kCorrupt) {
      return outcome;
    }
    return Annotate(fmt::format("bench {}{}", task.test.name(), when),
                    outcome.error());
  }

  std::shared_ptr<const model::Model> model_;
  const SequenceBenchOptions& options_;
  std::vector<SequenceTask> tasks_;
  TokenProgress progress_;
};

}  // namespace

Result<engine::SessionOptions> SequenceSession(
    const model::Model& model, const SequenceBenchOptions& options) {
  TC_ASSIGN_OR_RETURN(const std::vector<SequenceTask> tasks,
                      MakeTasks(model, options));
  return SessionOf(
      tasks, options,
      options.threads.empty() ? 0 : std::ranges::max(options.threads));
}

Result<SequenceBenchReport> RunSequenceBench(
    std::shared_ptr<const model::Model> model,
    const SequenceBenchOptions& options) {
  TC_ASSIGN_OR_RETURN(std::vector<SequenceTask> tasks,
                      MakeTasks(*model, options));
  SequenceBenchReport report;
  report.subject = SubjectOf(*model, options.session);
  report.num_given = options.prompts.size();
  SequenceBench bench(std::move(model), options, std::move(tasks));
  const std::vector<int> threads =
      options.threads.empty() ? std::vector<int>{0} : options.threads;
  for (const int num_threads : threads) {
    TC_RETURN_IF_ERROR(bench.RunOn(num_threads, report));
  }
  return report;
}

}  // namespace thermocline::bench
