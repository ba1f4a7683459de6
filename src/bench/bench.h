// Speed of prefill and decode, in llama-bench's columns, beside the roof.
#ifndef THERMOCLINE_BENCH_BENCH_H_
#define THERMOCLINE_BENCH_BENCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "bench/limits.h"
#include "bench/subject.h"
#include "compute/stage_times.h"
#include "engine/session.h"
#include "model/model.h"

namespace thermocline::bench {

struct BenchOptions {
  std::vector<int64_t> prompt_lengths = {512};    // 0: none
  std::vector<int64_t> generate_lengths = {128};  // 0: none
  std::vector<int64_t> depths = {0};  // positions filled before a test
  std::vector<int> threads;           // empty: physical cores
  int repetitions = 5;
  bool profile = false;  // account for every stage
  // The bench's own: context, num_threads, progress, profile.
  engine::SessionOptions session;
  ProgressFn progress;
};

struct BenchRow {
  std::string test;    // "pp512", "tg128 @ d4096"
  int64_t num_prompt;  // one of the two is 0
  int64_t num_generate;
  int64_t depth;
  int num_threads;
  std::vector<uint64_t> samples_ns;  // of the whole test, one per repetition
  double mean_ns, stddev_ns;
  std::vector<double> tokens_per_s;  // one per repetition
  double mean, stddev, median;
  int num_dropped;           // repetitions that somebody else disturbed
  uint64_t bytes_per_token;  // weights and KV read, mean over the test
  double gb_per_s;           // at the median
  double roof_gb_per_s;      // the read probe's best, same run, same threads
  double gmac_per_s;         // products with weights, at the median
  bool in_cache;             // weights < 2 * last-level cache: no percentage
  // Not all neurons were computed: GMAC/s are at most these, and there is no
  // limit. Bytes are those that were read, but of prompts at most these, and
  // then there is no percentage.
  bool is_sparse;
  bool bytes_are_bound;
  // Of the neurons of single tokens, the shares whose gate was computed, and of
  // which the rest was; 0 if not sparse.
  double candidate_share, open_share;
  // What keeps the test from being faster, and the share of that speed.
  LimitKind limit;
  double percent_of_limit;
  std::optional<compute::StageTimes> profile;  // of the repetitions that count
};

struct BenchReport {
  Subject subject;
  std::vector<BenchRow> rows;
};

// Runs every test on every thread count, each once to warm up and then
// `repetitions` times, with a read probe before each. A repetition with a slow
// probe is dropped and made up for (samples.h), with at most as many again.
// Token ids are fixed. Excludes tokenising and sampling.
// kInvalidArgument: nothing to run, a negative length, one beyond the model's
// context, or fewer than one repetition. kCorrupt: logits are not finite, a
// repetition gave other ones than the one before, or a kernel is wrong: no time
// is reported then. kCancelled: the session's flag was set. Else the errors of
// Session::Create, ReadProbe and MeasureProduct: kResourceExhausted where the
// machine lacks the memory, kUnsupported what the ISA or the mode has no code
// for.
// Threads  one caller at a time, or they measure each other. Calls `progress`
//          on its own.
// Cost     per thread count a session with the longest test's context, and the
//          probe's memory (ReadProbe::Create, for as much as a token reads).
Result<BenchReport> RunBench(std::shared_ptr<const model::Model> model,
                             const BenchOptions& options);

// Fills in what follows from the roofs: roof_gb_per_s, gmac_per_s and, where
// all neurons were computed, limit and percent_of_limit. The roof is that of
// reads from where the weights are, the cache or memory: they may be the limit
// in both. Requires the row's median, tokens, threads and bytes.
void ApplyLimit(const Arithmetic& arithmetic, double roof_gb_per_s,
                BenchRow& row);

// kMarkdown: a table, notes about its rows, then profiles. kJson: an array with
// an object per row; what is not UTF-8 in names is replaced. kCsv: a line of
// names and one per row, without samples and profiles. Keys are llama-bench's
// and those that docs/cli.md adds. Ends with a line end.
enum class BenchFormat { kMarkdown, kJson, kCsv };
std::string FormatBench(const BenchReport& report, BenchFormat format);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_BENCH_H_
