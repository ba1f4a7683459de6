// Speed of several sequences that generate together: they share the weights,
// but of a sparse model only what fires for more than one of them.
#ifndef THERMOCLINE_BENCH_SEQUENCE_BENCH_H_
#define THERMOCLINE_BENCH_SEQUENCE_BENCH_H_

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
#include "engine/runtime.h"
#include "model/model.h"

namespace thermocline::bench {

struct SequenceBenchOptions {
  std::vector<int64_t> num_sequences = {1};  // that generate together
  // Every sequence takes the next of these, and goes on as the model does: of
  // num_generate tokens the first comes with the prompt. None: fixed ids, other
  // ones in each sequence, of which num_generate are generated.
  std::vector<BenchPrompt> prompts;
  std::string source;  // of the prompts, in messages
  std::vector<PromptTest> tests = {{.num_prompt = 16}};
  std::vector<int> threads;  // empty: physical cores
  int repetitions = 5;
  // The bench's own: context, num_sequences, num_threads, progress.
  engine::SessionOptions session;
  ProgressFn progress;
};

struct SequenceRow {
  PromptTest test;
  int64_t num_sequences = 0;
  int num_threads = 0;
  int64_t num_passes = 0;    // of a repetition
  size_t num_prompts = 0;    // different ones of a file; 0: fixed ids
  double mean_prompt = 0.0;  // tokens
  // One per repetition: of all passes, and the tokens of all sequences.
  std::vector<uint64_t> samples_ns;
  std::vector<double> tokens_per_s;
  double mean = 0.0, stddev = 0.0, median = 0.0;
  int num_dropped = 0;  // repetitions that somebody else disturbed
  // A pass reads weights once, and each token the KV rows of its sequence, of
  // which this is the mean.
  uint64_t weight_bytes_per_pass = 0;
  uint64_t kv_bytes_per_token = 0;
  uint64_t bytes_per_token = 0;
  // Of experts as many as all tokens could choose: bytes are at most these.
  bool bytes_are_bound = false;
  double gb_per_s = 0.0;       // at the median
  double roof_gb_per_s = 0.0;  // the read probe's best, same run, same threads
  bool in_cache = false;       // weights < 2 * last-level cache: no percentage
  bool is_sparse = false;      // not all neurons were computed
  // Shares of a token's neurons whose gate was computed, and of which the rest
  // was; and of a pass's those for any of its tokens. 0 if not sparse.
  double candidate_share = 0.0, open_share = 0.0;
  double union_candidate_share = 0.0, union_open_share = 0.0;

  double tokens_per_s_each() const {
    return median / static_cast<double>(num_sequences);
  }
  double pass_ns() const { return 1e9 / tokens_per_s_each(); }
};

struct SequenceBenchReport {
  Subject subject;
  size_t num_given = 0;  // prompts
  std::vector<SequenceRow> rows;
};

// What RunSequenceBench opens with the most threads: for those who plan memory.
// kInvalidArgument: no tests, fewer than one repetition or sequence, more
// sequences than tokens are computed together (session.batch), more positions
// than the model has, PickPrompts' errors.
Result<engine::SessionOptions> SequenceSession(
    const model::Model& model, const SequenceBenchOptions& options);

// Runs every test on every thread count. First each sequence computes its
// prompt and the tokens behind it alone; then, for each number of sequences,
// the first so many generate together: once to warm up and `repetitions` times,
// with a read probe before. A disturbed repetition is dropped and made up for
// (samples.h). Times exclude prompts and choosing. Errors of SequenceSession.
// kCorrupt: a sequence's logits are not finite, or not those that it had alone.
// kCancelled: the session's flag was set. Else the errors of Runtime::Create
// and ReadProbe: kResourceExhausted where the machine or the budget lacks the
// memory.
// Threads  one caller at a time, or they measure each other. Calls `progress`
//          on its own.
// Cost     per thread count KV caches for the most sequences, and the probe's
//          memory; the time of all sequences alone.
Result<SequenceBenchReport> RunSequenceBench(
    std::shared_ptr<const model::Model> model,
    const SequenceBenchOptions& options);

// As FormatBench, of these rows; docs/cli.md says which keys.
std::string FormatSequenceBench(const SequenceBenchReport& report,
                                BenchFormat format);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_SEQUENCE_BENCH_H_
