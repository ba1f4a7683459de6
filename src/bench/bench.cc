#include "bench/bench.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/units.h"
#include "probe/memory.h"

namespace thermocline::bench {
namespace {

constexpr size_t kRoofBytes = size_t{256} << 20;
constexpr int kRoofRounds = 2;  // before every repetition

struct Test {
  int64_t num_prompt;
  int64_t num_generate;
  int64_t length() const { return num_prompt + num_generate; }
  std::string name() const {
    return num_prompt > 0 ? fmt::format("pp{}", num_prompt)
                          : fmt::format("tg{}", num_generate);
  }
};

Result<std::vector<Test>> ListTests(const BenchOptions& options,
                                    const model::Config& config) {
  std::vector<Test> tests;
  for (const int64_t n : options.prompt_lengths) {
    if (n != 0) tests.push_back({.num_prompt = n, .num_generate = 0});
  }
  for (const int64_t n : options.generate_lengths) {
    if (n != 0) tests.push_back({.num_prompt = 0, .num_generate = n});
  }
  if (tests.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "bench: nothing to run: -p and -n are both 0");
  }
  for (const Test& test : tests) {
    if (test.length() < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "bench: a test of {} tokens is not possible", test.length());
    }
    if (test.length() > config.context_length) {
      return Fail(ErrorCode::kInvalidArgument,
                  "bench: test {} needs {} positions, but the model's context "
                  "is {}; give a smaller {}",
                  test.name(), test.length(), config.context_length,
                  test.num_prompt > 0 ? "-p" : "-n");
    }
  }
  return tests;
}

// Fixed ids spread over the whole vocabulary (a stride prime to nearly every
// size, so that they do not repeat early).
std::vector<text::TokenId> FixedTokens(int64_t count, int64_t vocab_size) {
  constexpr int64_t kStride = 7919;
  std::vector<text::TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(
        static_cast<text::TokenId>((1 + i * kStride) % vocab_size));
  }
  return tokens;
}

// Folds logits into a hash; nullopt if one of them is not finite.
std::optional<uint64_t> FoldLogits(std::span<const float> logits,
                                   uint64_t hash) {
  bool finite = true;
  for (const float logit : logits) {
    uint32_t bits = 0;
    std::memcpy(&bits, &logit, sizeof(bits));
    finite &= std::isfinite(logit);
    hash = (hash ^ bits) * 0x100000001b3u;  // FNV-1a, a word at a time
  }
  return finite ? std::optional(hash) : std::nullopt;
}

// Hears of tokens as they are done.
using TickFn = std::function<void(size_t num_new)>;

struct Sample {
  double seconds;  // in Decode only
  uint64_t hash;   // of all logits
};

Result<Sample> RunOnce(engine::Session& session, const Test& test,
                       std::span<const text::TokenId> tokens,
                       std::span<float> logits, const TickFn& tick) {
  session.Truncate(0);
  Sample sample{.seconds = 0.0, .hash = 0xcbf29ce484222325u};
  const size_t step = test.num_prompt > 0 ? tokens.size() : 1;
  for (size_t begin = 0; begin < tokens.size(); begin += step) {
    Stopwatch watch;
    TC_RETURN_IF_ERROR(session.Decode(tokens.subspan(begin, step),
                                      engine::LogitsOf::kLast, logits));
    sample.seconds += watch.Seconds();
    const std::optional<uint64_t> hash = FoldLogits(logits, sample.hash);
    if (!hash.has_value()) {
      return Fail(ErrorCode::kCorrupt,
                  "bench {}: logits are not finite; the model's weights are "
                  "damaged (see --check-tensors)",
                  test.name());
    }
    sample.hash = *hash;
    tick(std::min(step, tokens.size() - begin));
  }
  return sample;
}

// Bytes that one run of the test must read: all weights once per batch or
// generated token, and each time the KV rows that there are by then.
uint64_t BytesPerToken(const engine::Session& session,
                       const engine::SessionOptions& options,
                       const Test& test) {
  const model::Model& model = session.model();
  const uint64_t weight_bytes =
      engine::WeightBytesPerToken(model, session.ffn());
  // Every position is one more row of each layer.
  const auto row_bytes =
      static_cast<double>(engine::KvBytesPerToken(model.config(), options, 0));
  const int64_t step = test.num_prompt > 0 ? options.batch : 1;
  double total = 0.0;
  for (int64_t begin = 0; begin < test.length(); begin += step) {
    const int64_t end = std::min(begin + step, test.length());
    total += static_cast<double>(weight_bytes) +
             row_bytes * static_cast<double>(end);
  }
  return static_cast<uint64_t>(total / static_cast<double>(test.length()));
}

struct Moments {
  double mean, stddev;
};

// Of at least one sample; the deviation of one alone is 0.
template <typename T>
Moments MomentsOf(const std::vector<T>& samples) {
  const auto count = static_cast<double>(samples.size());
  double sum = 0.0;
  for (const T sample : samples) sum += static_cast<double>(sample);
  const double mean = sum / count;
  double squares = 0.0;
  for (const T sample : samples) {
    const double off = static_cast<double>(sample) - mean;
    squares += off * off;
  }
  return {mean, samples.size() > 1 ? std::sqrt(squares / (count - 1.0)) : 0.0};
}

void Summarise(BenchRow& row) {
  const Moments ns = MomentsOf(row.samples_ns);
  row.mean_ns = ns.mean;
  row.stddev_ns = ns.stddev;
  const Moments speed = MomentsOf(row.tokens_per_s);
  row.mean = speed.mean;
  row.stddev = speed.stddev;
  std::vector<double> sorted = row.tokens_per_s;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  row.median = sorted.size() % 2 == 1
                   ? sorted[middle]
                   : (sorted[middle - 1] + sorted[middle]) / 2.0;
  row.gb_per_s = row.median * static_cast<double>(row.bytes_per_token) / 1e9;
}

// One row.
Result<BenchRow> RunTest(engine::Session& session, const Test& test,
                         const BenchOptions& options, const TickFn& tick) {
  const model::Config& config = session.model().config();
  const std::vector<text::TokenId> tokens =
      FixedTokens(test.length(), config.vocab_size);
  std::vector<float> logits(static_cast<size_t>(config.vocab_size));

  BenchRow row{.test = test.name(),
               .num_prompt = test.num_prompt,
               .num_generate = test.num_generate,
               .num_threads = session.num_threads()};
  row.bytes_per_token = BytesPerToken(session, options.session, test);
  row.bytes_are_bound = session.ffn() != engine::FfnMode::kDense;
  TC_ASSIGN_OR_RETURN(const Sample warm_up,
                      RunOnce(session, test, tokens, logits, tick));
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    TC_ASSIGN_OR_RETURN(const probe::ReadRate roof,
                        probe::MeasureSequentialRead(session.num_threads(),
                                                     kRoofBytes, kRoofRounds));
    row.roof_gb_per_s = std::max(row.roof_gb_per_s, roof.gb_per_s_best);
    TC_ASSIGN_OR_RETURN(const Sample sample,
                        RunOnce(session, test, tokens, logits, tick));
    if (sample.hash != warm_up.hash) {
      return Fail(ErrorCode::kCorrupt,
                  "bench {}: the same tokens gave other logits in repetition "
                  "{}; the speed of a wrong result means nothing",
                  row.test, repetition + 1);
    }
    const double seconds = std::max(sample.seconds, 1e-9);
    row.samples_ns.push_back(
        static_cast<uint64_t>(std::llround(seconds * 1e9)));
    row.tokens_per_s.push_back(static_cast<double>(test.length()) / seconds);
  }
  Summarise(row);
  return row;
}

// "llama 8.80 M F16": the type that most weight bytes have.
std::string NameModel(const model::Model& model, uint64_t num_params) {
  std::map<DType, uint64_t> bytes_by_type;
  for (const gguf::TensorInfo& tensor : model.file().tensors()) {
    bytes_by_type[tensor.dtype] += tensor.num_bytes;
  }
  const auto main_type = std::max_element(
      bytes_by_type.begin(), bytes_by_type.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("{} {} {}", model.config().architecture,
                     FormatCount(num_params), NameOf(main_type->first));
}

}  // namespace

Result<BenchReport> RunBench(std::shared_ptr<const model::Model> model,
                             const BenchOptions& options) {
  if (options.repetitions < 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "bench: {} repetitions measure nothing", options.repetitions);
  }
  TC_ASSIGN_OR_RETURN(const std::vector<Test> tests,
                      ListTests(options, model->config()));
  BenchReport report{.model_path = model->file().path(),
                     .isa = std::string(NameOf(options.session.isa)),
                     .batch = options.session.batch,
                     .k_type = options.session.k_type,
                     .v_type = options.session.v_type};
  for (const gguf::TensorInfo& tensor : model->file().tensors()) {
    report.model_bytes += tensor.num_bytes;
    report.num_params += tensor.shape.num_elems();
  }
  report.model_name = NameModel(*model, report.num_params);

  const std::vector<int> threads =
      options.threads.empty() ? std::vector<int>{0} : options.threads;
  uint64_t num_tokens = 0;  // of the whole bench, warm-ups too
  for (const Test& test : tests) {
    num_tokens += static_cast<uint64_t>(test.length()) * threads.size() *
                  static_cast<uint64_t>(options.repetitions + 1);
  }
  uint64_t num_done = 0;
  uint64_t num_reported = 0;
  // A prefill tells of its layers: the same count again would be no progress.
  const auto report_done = [&](uint64_t num) {
    if (num <= num_reported) return;
    num_reported = num;
    ReportProgress(options.progress, "bench", num, num_tokens);
  };
  const auto tick = [&](size_t num_new) {
    num_done += num_new;
    report_done(num_done);
  };
  const bool in_cache =
      engine::WeightBytesPerToken(*model) < 2 * probe::LastLevelCacheBytes();
  for (const int num_threads : threads) {
    engine::SessionOptions session_options = options.session;
    session_options.num_threads = num_threads;
    session_options.context = 0;
    session_options.progress = [&](std::string_view, uint64_t num_of_prompt,
                                   uint64_t) {
      report_done(num_done + num_of_prompt);
    };
    for (const Test& test : tests) {
      session_options.context =
          std::max(session_options.context, test.length());
    }
    TC_ASSIGN_OR_RETURN(const auto session,
                        engine::Session::Create(model, session_options));
    report.ffn = NameOf(session->ffn());
    for (const Test& test : tests) {
      TC_ASSIGN_OR_RETURN(BenchRow row, RunTest(*session, test, options, tick));
      row.in_cache = in_cache;
      report.rows.push_back(std::move(row));
    }
  }
  return report;
}

}  // namespace thermocline::bench
