// Speed with real prompts and the model's own continuation of them: what caches
// of neurons, balancing and drafts are worth depends on the text.
#ifndef THERMOCLINE_BENCH_PROMPT_BENCH_H_
#define THERMOCLINE_BENCH_PROMPT_BENCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "bench/bench.h"
#include "bench/prompt_pick.h"
#include "bench/subject.h"
#include "engine/session.h"
#include "model/model.h"

namespace thermocline::bench {

struct PromptBenchOptions {
  std::vector<BenchPrompt> prompts;
  std::string source;  // of the prompts, in messages
  std::vector<PromptTest> tests = {{}};
  std::vector<int> threads;  // empty: physical cores
  int repetitions = 5;       // of each prompt
  // The bench's own: context, num_threads, progress, profile.
  engine::SessionOptions session;
  ProgressFn progress;
};

// A generated token, and the pass through the model that gave it.
struct TokenSample {
  text::TokenId token;
  uint64_t ns;
  uint64_t num_bytes;  // weights and KV read; 0 of the first, the prompt's
};

// One prompt, once.
struct PromptRun {
  size_t line = 0;     // of the prompt
  int repetition = 0;  // from 1; the dropped ones count
  int64_t num_prompt = 0;
  std::vector<TokenSample> tokens;  // [num_generate]
};

struct PromptRow {
  PromptTest test;
  int num_threads = 0;
  size_t num_prompts = 0;  // that the test ran
  size_t num_given = 0;
  std::vector<PromptRun> runs;  // that count, prompt by prompt
  int num_dropped = 0;          // runs that somebody else disturbed
  double mean_prompt = 0.0;     // tokens
  // Of the tokens behind the first, one value per run.
  std::vector<double> tokens_per_s;
  double mean = 0.0, stddev = 0.0, median = 0.0;
  // Medians over the runs: all generated tokens by the time from the beginning
  // of the prompt to the last of them; the time to the first.
  double response_tokens_per_s = 0.0;
  double first_token_ns = 0.0;
  // Of single tokens behind the first, of all runs together.
  double p50_ns = 0.0, p90_ns = 0.0, p99_ns = 0.0;
  uint64_t bytes_per_token = 0;  // of these tokens, the mean
  double gb_per_s = 0.0;         // at the median
  double roof_gb_per_s = 0.0;  // the read probe's best, same run, same threads
  bool in_cache = false;       // weights < 2 * last-level cache: no percentage
  bool is_sparse = false;      // not all neurons were computed
  // Shares of neurons whose gate was computed, and of which the rest was; 0 if
  // not sparse.
  double candidate_share = 0.0, open_share = 0.0;
};

struct PromptBenchReport {
  Subject subject;
  std::vector<PromptRow> rows;
};

// Runs every test on every thread count: its first prompt once to warm up, then
// all in turns, `repetitions` times, each from an empty KV cache, with a read
// probe before. A run with a slow probe is dropped and made up for (samples.h),
// with at most as many again per prompt. The likeliest token is taken, but
// never one that ends a text: every run generates as many as the test says.
// Times exclude tokenising and choosing. kInvalidArgument: no tests, fewer than
// one repetition, PickPrompts' errors. kUnsupported: a model without a
// vocabulary. kCorrupt: a prompt was continued in two ways, by which its speed
// means nothing. kCancelled: the session's flag was set. Else the errors of
// Session::Create, Session::Decode and ReadProbe. Threads  one caller at a
// time, or they measure each other. Calls `progress`
//          on its own.
// Cost     per thread count a session with the longest test's context, and the
//          probe's memory; in the report a sample per token.
Result<PromptBenchReport> RunPromptBench(
    std::shared_ptr<const model::Model> model,
    const PromptBenchOptions& options);

// As FormatBench, of these rows; docs/cli.md says which keys.
std::string FormatPromptBench(const PromptBenchReport& report,
                              BenchFormat format);

// CSV: a line of names, and one per generated token of the runs that count.
// Without bytes for the first token of each run.
std::string FormatTokensCsv(const PromptBenchReport& report);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_PROMPT_BENCH_H_
