#include "bench/prompt_bench.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/units.h"
#include "bench/greedy_choice.h"
#include "bench/roof_probe.h"
#include "bench/samples.h"
#include "bench/token_progress.h"
#include "model/weight_bytes.h"

namespace thermocline::bench {
namespace {

using text::TokenId;

// A test and its prompts.
struct Task {
  PromptTest test;
  std::vector<PickedPrompt> prompts;

  uint64_t num_prompt_tokens() const {
    uint64_t total = 0;
    for (const PickedPrompt& prompt : prompts) total += prompt.tokens.size();
    return total;
  }
  int64_t num_positions() const {
    size_t longest = 0;
    for (const PickedPrompt& prompt : prompts) {
      longest = std::max(longest, prompt.tokens.size());
    }
    return static_cast<int64_t>(longest) + test.num_generate;
  }
};

// The runs of one prompt so far.
struct Trials {
  std::vector<PromptRun> runs;
  std::vector<double> probe_rates;  // before each
};

uint64_t NanosecondsOf(const Stopwatch& watch) {
  return static_cast<uint64_t>(
      std::llround(std::max(watch.Seconds() * 1e9, 1.0)));
}

bool SameTokens(const PromptRun& a, const PromptRun& b) {
  return std::ranges::equal(a.tokens, b.tokens, {}, &TokenSample::token,
                            &TokenSample::token);
}

// What runs say together. Requires row.runs, at least one.
void Summarise(PromptRow& row) {
  std::vector<double> response, first, single;
  double prompt_tokens = 0.0;
  double bytes = 0.0;
  for (const PromptRun& run : row.runs) {
    double seconds = 0.0;
    for (const TokenSample& token : std::span(run.tokens).subspan(1)) {
      single.push_back(static_cast<double>(token.ns));
      seconds += single.back() / 1e9;
      bytes += static_cast<double>(token.num_bytes);
    }
    const auto num_tokens = static_cast<double>(run.tokens.size());
    first.push_back(static_cast<double>(run.tokens.front().ns));
    row.tokens_per_s.push_back((num_tokens - 1.0) / seconds);
    response.push_back(num_tokens / (seconds + first.back() / 1e9));
    prompt_tokens += static_cast<double>(run.num_prompt);
  }
  row.mean_prompt = prompt_tokens / static_cast<double>(row.runs.size());
  row.mean = MomentsOf(row.tokens_per_s).mean;
  row.stddev = MomentsOf(row.tokens_per_s).stddev;
  row.median = MedianOf(row.tokens_per_s);
  row.response_tokens_per_s = MedianOf(std::move(response));
  row.first_token_ns = MedianOf(std::move(first));
  row.bytes_per_token =
      static_cast<uint64_t>(bytes / static_cast<double>(single.size()));
  const double shares[] = {0.5, 0.9, 0.99};
  const std::vector<double> ns = PercentilesOf(std::move(single), shares);
  row.p50_ns = ns[0];
  row.p90_ns = ns[1];
  row.p99_ns = ns[2];
  row.gb_per_s = row.median * static_cast<double>(row.bytes_per_token) / 1e9;
}

// Reads the shares off what generated tokens have read.
void ApplyTotals(const engine::SparseTotals& totals, PromptRow& row) {
  if (totals.num_neurons == 0) return;
  const auto num_neurons = static_cast<double>(totals.num_neurons);
  row.candidate_share =
      static_cast<double>(totals.num_candidates) / num_neurons;
  row.open_share = static_cast<double>(totals.num_open) / num_neurons;
}

class PromptBench {
 public:
  PromptBench(std::shared_ptr<const model::Model> model,
              const PromptBenchOptions& options, std::vector<Task> tasks)
      : model_(std::move(model)),
        options_(options),
        tasks_(std::move(tasks)),
        progress_(options.progress, NumTokens()),
        choice_(*model_),
        logits_(model_->config().vocab_size) {}

  // Adds the rows of one thread count.
  Status RunOn(int num_threads, PromptBenchReport& report) {
    engine::SessionOptions options = options_.session;
    options.num_threads = num_threads;
    options.context = 0;
    for (const Task& task : tasks_) {
      options.context = std::max(options.context, task.num_positions());
    }
    options.progress = [this](std::string_view, uint64_t num_done, uint64_t) {
      progress_.Show(num_done);
    };
    TC_ASSIGN_OR_RETURN(const auto session,
                        engine::Session::Create(model_, options));
    report.subject.ffn = NameOf(session->ffn());
    TC_ASSIGN_OR_RETURN(
        auto probe, CreateRoofProbe(*model_, session->num_threads(),
                                    DenseBytesAt(*session, options.context)));
    double roof = 0.0;
    const size_t first_row = report.rows.size();
    for (const Task& task : tasks_) {
      TC_ASSIGN_OR_RETURN(PromptRow row, RunTask(*session, task, probe, roof));
      report.rows.push_back(std::move(row));
    }
    for (size_t i = first_row; i < report.rows.size(); ++i) {
      report.rows[i].roof_gb_per_s = roof;
    }
    return {};
  }

 private:
  uint64_t NumTokens() const {
    uint64_t num_tokens = 0;
    for (const Task& task : tasks_) {
      const auto num_generate = static_cast<uint64_t>(task.test.num_generate);
      num_tokens += task.prompts.front().tokens.size() + num_generate;
      num_tokens +=
          static_cast<uint64_t>(options_.repetitions) *
          (task.num_prompt_tokens() + num_generate * task.prompts.size());
    }
    return num_tokens * std::max<size_t>(options_.threads.size(), 1);
  }

  uint64_t KvBytesAt(int64_t position) const {
    return engine::KvBytesPerToken(model_->config(), options_.session,
                                   position);
  }
  uint64_t DenseBytesAt(const engine::Session& session,
                        int64_t position) const {
    return engine::WeightBytesPerToken(*model_, session.ffn(),
                                       session.predictor()) +
           KvBytesAt(position);
  }

  // A row without the roof; raises `roof` to what the probe finds.
  Result<PromptRow> RunTask(engine::Session& session, const Task& task,
                            probe::ReadProbe& probe, double& roof) {
    PromptRow row;
    row.test = task.test;
    row.num_threads = session.num_threads();
    row.num_prompts = task.prompts.size();
    row.num_given = options_.prompts.size();
    row.in_cache = IsInCache(*model_);
    row.is_sparse = session.ffn() != engine::FfnMode::kDense;
    totals_ = {};
    TC_ASSIGN_OR_RETURN(
        const PromptRun warm_up,
        RunOnce(session, task.prompts.front(), task.test, /*counts=*/true));
    std::vector<Trials> trials(task.prompts.size());
    TC_RETURN_IF_ERROR(RunInTurns(session, task, warm_up, probe, roof, trials));
    const auto num_wanted = static_cast<size_t>(options_.repetitions);
    for (Trials& trial : trials) {
      const std::vector<size_t> chosen =
          ChooseRepetitions(trial.probe_rates, roof, num_wanted);
      row.num_dropped += static_cast<int>(trial.runs.size() - chosen.size());
      for (const size_t i : chosen) {
        row.runs.push_back(std::move(trial.runs[i]));
      }
    }
    ApplyTotals(totals_, row);
    Summarise(row);
    return row;
  }

  // Prompt after prompt, so that none finds in a cache what it has left there
  // itself a moment ago; again until each has runs enough.
  Status RunInTurns(engine::Session& session, const Task& task,
                    const PromptRun& warm_up, probe::ReadProbe& probe,
                    double& roof, std::vector<Trials>& trials) {
    const auto num_wanted = static_cast<size_t>(options_.repetitions);
    for (bool is_done = false; !is_done;) {
      is_done = true;
      for (size_t i = 0; i < trials.size(); ++i) {
        Trials& trial = trials[i];
        if (!NeedsMore(trial.probe_rates, roof, num_wanted)) continue;
        is_done = false;
        TC_ASSIGN_OR_RETURN(const double rate, probe.Measure(kProbeRounds));
        TC_ASSIGN_OR_RETURN(PromptRun run,
                            RunOnce(session, task.prompts[i], task.test,
                                    trial.runs.size() < num_wanted));
        run.repetition = static_cast<int>(trial.runs.size()) + 1;
        const PromptRun& earlier = i == 0               ? warm_up
                                   : trial.runs.empty() ? run
                                                        : trial.runs.front();
        TC_RETURN_IF_ERROR(CheckSame(earlier, run, task.test));
        trial.probe_rates.push_back(rate);
        trial.runs.push_back(std::move(run));
        roof = std::max(roof, rate);
      }
    }
    return {};
  }

  Status CheckSame(const PromptRun& earlier, const PromptRun& run,
                   const PromptTest& test) const {
    if (SameTokens(earlier, run)) return {};
    return Fail(ErrorCode::kCorrupt,
                "bench {}: {}: line {}: the prompt was continued in another "
                "way in repetition {}; the speed of a wrong result means "
                "nothing",
                test.name(), options_.source, run.line, run.repetition);
  }

  Result<PromptRun> RunOnce(engine::Session& session,
                            const PickedPrompt& prompt, const PromptTest& test,
                            bool counts) {
    session.Truncate(0);
    progress_.Mute(!counts);
    PromptRun run;
    run.line = prompt.line;
    run.num_prompt = static_cast<int64_t>(prompt.tokens.size());
    run.tokens.reserve(static_cast<size_t>(test.num_generate));
    Stopwatch watch;
    TC_RETURN_IF_ERROR(
        session.Prompt(prompt.tokens, engine::LogitsOf::kLast, logits_));
    const uint64_t ns = NanosecondsOf(watch);
    run.tokens.push_back(
        {.token = choice_.Choose(logits_), .ns = ns, .num_bytes = 0});
    progress_.Add(prompt.tokens.size() + 1);
    while (std::cmp_less(run.tokens.size(), test.num_generate)) {
      TC_ASSIGN_OR_RETURN(const TokenSample sample,
                          GenerateNext(session, run.tokens.back().token));
      run.tokens.push_back(sample);
      progress_.Add(1);
    }
    return run;
  }

  // The token behind `last`.
  Result<TokenSample> GenerateNext(engine::Session& session, TokenId last) {
    const int64_t position = session.position();
    const engine::SparseTotals before = session.sparse_totals();
    Stopwatch watch;
    TC_RETURN_IF_ERROR(session.Generate(std::span(&last, 1),
                                        engine::LogitsOf::kLast, logits_));
    const uint64_t ns = NanosecondsOf(watch);
    const engine::SparseTotals read = session.sparse_totals() - before;
    AddTotals(read);
    const uint64_t num_bytes =
        read.num_tokens == 0 ? DenseBytesAt(session, position)
                             : model::FixedWeightBytes(model_->weights(), 1) +
                                   read.num_bytes + KvBytesAt(position);
    return TokenSample{
        .token = choice_.Choose(logits_), .ns = ns, .num_bytes = num_bytes};
  }

  void AddTotals(const engine::SparseTotals& read) {
    totals_.num_neurons += read.num_neurons;
    totals_.num_candidates += read.num_candidates;
    totals_.num_open += read.num_open;
  }

  std::shared_ptr<const model::Model> model_;
  const PromptBenchOptions& options_;
  std::vector<Task> tasks_;
  TokenProgress progress_;
  GreedyChoice choice_;
  std::vector<float> logits_;
  engine::SparseTotals totals_;  // of a task's generated tokens
};

Result<std::vector<Task>> MakeTasks(const model::Model& model,
                                    const PromptBenchOptions& options) {
  if (options.repetitions < 1 || options.tests.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "bench: {} of {} measure nothing",
                Plural(options.repetitions, "repetition"),
                Plural(options.tests.size(), "test"));
  }
  if (model.tokenizer() == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "{}: has no vocabulary, so that prompts cannot be read",
                model.file().path());
  }
  std::vector<Task> tasks;
  for (const PromptTest& test : options.tests) {
    TC_ASSIGN_OR_RETURN(auto picked, PickPrompts(options.prompts, test,
                                                 model.config().context_length,
                                                 options.source));
    tasks.push_back({test, std::move(picked)});
  }
  return tasks;
}

}  // namespace

Result<PromptBenchReport> RunPromptBench(
    std::shared_ptr<const model::Model> model,
    const PromptBenchOptions& options) {
  TC_ASSIGN_OR_RETURN(std::vector<Task> tasks, MakeTasks(*model, options));
  PromptBenchReport report;
  report.subject = SubjectOf(*model, options.session);
  PromptBench bench(std::move(model), options, std::move(tasks));
  const std::vector<int> threads =
      options.threads.empty() ? std::vector<int>{0} : options.threads;
  for (const int num_threads : threads) {
    TC_RETURN_IF_ERROR(bench.RunOn(num_threads, report));
  }
  return report;
}

}  // namespace thermocline::bench
