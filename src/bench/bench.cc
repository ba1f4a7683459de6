#include "bench/bench.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/remedy.h"
#include "bench/logits_hash.h"
#include "bench/roof_probe.h"
#include "bench/samples.h"
#include "bench/token_progress.h"
#include "bench/workload.h"
#include "model/weight_bytes.h"

namespace thermocline::bench {
namespace {

// Tokens that the session computes together, but perhaps the last ones.
int64_t StepOf(const engine::SessionOptions& options, const Workload& test) {
  return test.is_prompt() ? options.batch : 1;
}

// Whether a test computes all neurons.
bool IsDense(const engine::Session& session,
             const engine::SessionOptions& options, const Workload& test) {
  return session.ffn() == engine::FfnMode::kDense ||
         (test.is_prompt() && options.dense_prompts);
}

// Puts what a generation's tokens have read in the place of what they can.
void ApplyTotals(const engine::Session& session,
                 const engine::SparseTotals& totals, BenchRow& row) {
  if (row.num_generate == 0 || totals.num_tokens == 0) return;
  const model::Model& model = session.model();
  row.bytes_per_token +=
      model::FixedWeightBytes(model.weights(), 1) +
      totals.num_bytes / totals.num_tokens -
      engine::WeightBytesPerToken(model, session.ffn(), session.predictor());
  row.bytes_are_bound = false;
  const auto num_neurons = static_cast<double>(totals.num_neurons);
  row.candidate_share =
      static_cast<double>(totals.num_candidates) / num_neurons;
  row.open_share = static_cast<double>(totals.num_open) / num_neurons;
}

// Bytes that one run of the test must read: all weights once per batch or
// generated token, and each time the KV rows that there are by then.
uint64_t BytesPerToken(const engine::Session& session,
                       const engine::SessionOptions& options,
                       const Workload& test) {
  const model::Model& model = session.model();
  // Every position is one more row of each layer.
  const auto row_bytes =
      static_cast<double>(engine::KvBytesPerToken(model.config(), options, 0));
  const int64_t step = StepOf(options, test);
  double total = 0.0;
  for (int64_t begin = 0; begin < test.length(); begin += step) {
    const int64_t end = std::min(begin + step, test.length());
    const uint64_t weight_bytes = engine::WeightBytesPerBatch(
        model,
        IsDense(session, options, test) ? engine::FfnMode::kDense
                                        : session.ffn(),
        session.predictor(), static_cast<uint64_t>(end - begin));
    total += static_cast<double>(weight_bytes) +
             row_bytes * static_cast<double>(test.depth + end);
  }
  return static_cast<uint64_t>(total / static_cast<double>(test.length()));
}

// One run of a test.
struct Sample {
  double seconds = 0.0;       // in Decode only
  uint64_t hash = kNoLogits;  // of all of them
  compute::StageTimes profile;
};

void Summarise(const std::vector<Sample>& samples, BenchRow& row) {
  std::vector<double> ns;
  for (const Sample& sample : samples) {
    row.samples_ns.push_back(
        static_cast<uint64_t>(std::llround(sample.seconds * 1e9)));
    ns.push_back(static_cast<double>(row.samples_ns.back()));
    row.tokens_per_s.push_back(
        static_cast<double>(row.num_prompt + row.num_generate) /
        sample.seconds);
    if (row.profile.has_value()) *row.profile += sample.profile;
  }
  row.mean_ns = MomentsOf(ns).mean;
  row.stddev_ns = MomentsOf(ns).stddev;
  row.mean = MomentsOf(row.tokens_per_s).mean;
  row.stddev = MomentsOf(row.tokens_per_s).stddev;
  row.median = MedianOf(row.tokens_per_s);
  row.gb_per_s = row.median * static_cast<double>(row.bytes_per_token) / 1e9;
}

class Bench {
 public:
  Bench(std::shared_ptr<const model::Model> model, const BenchOptions& options,
        std::vector<Workload> tests)
      : model_(std::move(model)),
        options_(options),
        tests_(std::move(tests)),
        work_(WorkOf(*model_)),
        rates_(options.session.isa),
        progress_(options.progress, NumTokens()) {}

  // Adds the rows of one thread count.
  Status RunOn(int num_threads, BenchReport& report) {
    engine::SessionOptions options = options_.session;
    options.num_threads = num_threads;
    options.context = 0;
    for (const Workload& test : tests_) {
      options.context = std::max(options.context, test.depth + test.length());
    }
    options.times = options_.profile ? &profile_ : nullptr;
    options.progress = [this](std::string_view, uint64_t num_done, uint64_t) {
      progress_.Show(num_done);
    };
    TC_ASSIGN_OR_RETURN(const auto session,
                        engine::Session::Create(model_, options));
    report.subject.ffn = NameOf(session->ffn());
    TC_ASSIGN_OR_RETURN(auto probe, CreateProbe(*session));
    double roof = 0.0;
    const size_t first_row = report.rows.size();
    for (const Workload& test : tests_) {
      TC_ASSIGN_OR_RETURN(BenchRow row, RunTest(*session, test, probe, roof));
      report.rows.push_back(std::move(row));
    }
    for (size_t i = 0; i < tests_.size(); ++i) {
      TC_ASSIGN_OR_RETURN(
          const Arithmetic arithmetic,
          ArithmeticOf(work_, rates_, tests_[i], options.batch));
      ApplyLimit(arithmetic, roof, report.rows[first_row + i]);
    }
    return {};
  }

 private:
  uint64_t NumTokens() const {
    const size_t num_thread_counts =
        std::max<size_t>(options_.threads.size(), 1);
    uint64_t num_tokens = 0;
    for (const Workload& test : tests_) {
      num_tokens += static_cast<uint64_t>(test.length()) * num_thread_counts *
                    static_cast<uint64_t>(options_.repetitions + 1);
    }
    return num_tokens;
  }

  Result<probe::ReadProbe> CreateProbe(const engine::Session& session) const {
    uint64_t token_bytes = 0;
    for (const Workload& test : tests_) {
      token_bytes =
          std::max(token_bytes, BytesPerToken(session, options_.session, test));
    }
    return CreateRoofProbe(*model_, session.num_threads(), token_bytes);
  }

  // A row without what follows from the roof; raises `roof` to what the probe
  // finds.
  Result<BenchRow> RunTest(engine::Session& session, const Workload& test,
                           probe::ReadProbe& probe, double& roof) {
    BenchRow row{.test = test.name(),
                 .num_prompt = test.num_prompt,
                 .num_generate = test.num_generate,
                 .depth = test.depth,
                 .num_threads = session.num_threads()};
    row.bytes_per_token = BytesPerToken(session, options_.session, test);
    row.in_cache = IsInCache(*model_);
    row.is_sparse = !IsDense(session, options_.session, test);
    row.bytes_are_bound = row.is_sparse;
    if (options_.profile) row.profile.emplace();

    const auto num_wanted = static_cast<size_t>(options_.repetitions);
    const engine::SparseTotals before = session.sparse_totals();
    std::vector<double> rates;
    std::vector<Sample> samples;
    TC_ASSIGN_OR_RETURN(const Sample warm_up,
                        RunOnce(session, test, /*counts=*/true));
    while (NeedsMore(rates, roof, num_wanted)) {
      TC_ASSIGN_OR_RETURN(const double rate, probe.Measure(kProbeRounds));
      TC_ASSIGN_OR_RETURN(Sample sample,
                          RunOnce(session, test, samples.size() < num_wanted));
      if (sample.hash != warm_up.hash) {
        return Fail(ErrorCode::kCorrupt,
                    "bench {}: the same tokens gave other logits in repetition "
                    "{}; the speed of a wrong result means nothing",
                    row.test, samples.size() + 1);
      }
      rates.push_back(rate);
      samples.push_back(sample);
      roof = std::max(roof, rate);
    }
    std::vector<Sample> chosen;
    for (const size_t i : ChooseRepetitions(rates, roof, num_wanted)) {
      chosen.push_back(samples[i]);
    }
    row.num_dropped = static_cast<int>(samples.size() - chosen.size());
    ApplyTotals(session, session.sparse_totals() - before, row);
    Summarise(chosen, row);
    return row;
  }

  Result<Sample> RunOnce(engine::Session& session, const Workload& test,
                         bool counts) {
    const model::Config& config = model_->config();
    const std::vector<text::TokenId> ids =
        FixedTokens(test.depth + test.length(), config.vocab_size);
    const std::span<const text::TokenId> tokens(ids);
    progress_.Mute(true);
    TC_RETURN_IF_ERROR(
        FillTo(session, tokens.first(static_cast<size_t>(test.depth))));
    progress_.Mute(!counts);
    logits_.resize(config.vocab_size);
    profile_ = {};
    Sample sample;
    const auto length = static_cast<size_t>(test.length());
    const size_t step = test.is_prompt() ? length : 1;
    for (size_t i = 0; i < length; i += step) {
      Stopwatch watch;
      TC_RETURN_IF_ERROR(session.Decode(
          tokens.subspan(static_cast<size_t>(test.depth) + i, step),
          test.is_prompt() ? engine::Phase::kPrompt : engine::Phase::kGenerate,
          engine::LogitsOf::kLast, logits_));
      sample.seconds += std::max(watch.Seconds(), 1e-9);
      const std::optional<uint64_t> hash = FoldLogits(logits_, sample.hash);
      if (!hash.has_value()) {
        return Fail(ErrorCode::kCorrupt, Advice{Remedy::kCheckTensors},
                    "bench {}: logits are not finite; the model's weights are "
                    "damaged",
                    test.name());
      }
      sample.hash = *hash;
      progress_.Add(step);
    }
    sample.profile = profile_;
    return sample;
  }

  // Leaves exactly `tokens` in the cache; what is there of them stays.
  Status FillTo(engine::Session& session,
                std::span<const text::TokenId> tokens) {
    const auto depth = static_cast<int64_t>(tokens.size());
    session.Truncate(std::min(session.position(), depth));
    if (session.position() == depth) return {};
    return session.Prompt(
        tokens.subspan(static_cast<size_t>(session.position())),
        engine::LogitsOf::kNone, {});
  }

  std::shared_ptr<const model::Model> model_;
  const BenchOptions& options_;
  std::vector<Workload> tests_;
  ModelWork work_;
  KernelRates rates_;
  TokenProgress progress_;
  compute::StageTimes profile_;  // of the run that is under way
  std::vector<float> logits_;
};

}  // namespace

void ApplyLimit(const Arithmetic& arithmetic, double roof_gb_per_s,
                BenchRow& row) {
  const auto num_tokens =
      static_cast<double>(row.num_prompt + row.num_generate);
  row.roof_gb_per_s = roof_gb_per_s;
  row.gmac_per_s = row.median * arithmetic.num_macs / num_tokens / 1e9;
  if (row.is_sparse) return;
  const double memory_seconds = num_tokens *
                                static_cast<double>(row.bytes_per_token) /
                                (roof_gb_per_s * 1e9);
  const Limit limit =
      LongerOf(memory_seconds, arithmetic.seconds / row.num_threads);
  row.limit = limit.kind;
  row.percent_of_limit = 100.0 * limit.seconds * row.median / num_tokens;
}

Result<BenchReport> RunBench(std::shared_ptr<const model::Model> model,
                             const BenchOptions& options) {
  if (options.repetitions < 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "bench: {} repetitions measure nothing", options.repetitions);
  }
  TC_ASSIGN_OR_RETURN(
      std::vector<Workload> tests,
      ListTests(options.prompt_lengths, options.generate_lengths,
                options.depths, model->config().context_length));
  BenchReport report = {.subject = SubjectOf(*model, options.session),
                        .rows = {}};
  Bench bench(std::move(model), options, std::move(tests));
  const std::vector<int> threads =
      options.threads.empty() ? std::vector<int>{0} : options.threads;
  for (const int num_threads : threads) {
    TC_RETURN_IF_ERROR(bench.RunOn(num_threads, report));
  }
  return report;
}

}  // namespace thermocline::bench
