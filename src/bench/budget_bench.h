// Speed of a model at several budgets of memory, where a part of it stays in
// its file, beside what the drive and the memory allow.
#ifndef THERMOCLINE_BENCH_BUDGET_BENCH_H_
#define THERMOCLINE_BENCH_BUDGET_BENCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "bench/bench.h"
#include "bench/prompt_pick.h"
#include "engine/session.h"
#include "engine/stream/stream_replay.h"
#include "model/model.h"

namespace thermocline::bench {

// A generated token.
struct StreamedToken {
  double seconds = 0.0;
  uint64_t num_missed = 0;    // units that had to be read for it
  uint64_t stream_bytes = 0;  // read for it from the file
  uint64_t num_reads = 0;     // of these bytes
  // What its policy did: units that it had, that it read besides, and of what
  // came those that left unused.
  uint64_t num_hits = 0, num_moves = 0, num_wasted = 0;
  uint64_t move_bytes = 0;      // of stream_bytes, those of moves
  uint64_t memory_bytes = 0;    // weights, keys and values that it read there
  double waited_seconds = 0.0;  // in which some thread waited for a read
};

// What the machine can read, bytes per second.
struct BudgetRates {
  std::optional<double> drive;  // in reads as large as the run's; absent: none
  double host = 0.0;
};

struct BudgetRow {
  std::string storage;        // the name of how it streams; empty: the default
  uint64_t ram = 0;           // the budget
  std::string unit;           // "layers" that come and go; empty: nothing does
  double resident = 1.0;      // share of the weights that does not
  bool is_in_memory = false;  // all of it, and none is mapped by mode mmap
  std::vector<StreamedToken> tokens;
  std::vector<double> tokens_per_s;  // of each prompt's
  uint64_t planned_bytes = 0;
  uint64_t peak_bytes = 0;  // anonymous and locked, of the process
  std::optional<BudgetRates> rates;
  // What the first tokens read, again, with nothing computed; absent: nothing
  // streams, or it could not be read again. Fewer than tokens: of the others
  // not every read was noted.
  std::optional<engine::StreamReplay> replay;

  // Seconds that all tokens together take if the drive reads what they read of
  // the file, or the host what they read in memory, whichever takes longer.
  double bound_seconds() const;
};

struct BudgetBenchOptions {
  std::vector<BenchPrompt> prompts;  // none: fixed ids
  std::string source;                // of the prompts, in messages
  PromptTest test = {.num_prompt = 16, .num_generate = 64};
  engine::SessionOptions session;   // with the budget, and all positions
  std::optional<double> host_rate;  // bytes per second; absent: no bound
  double probe_seconds = 0.2;       // of each row of the drive's probe
  ProgressFn progress;
};

// The first prompt, to fill caches, then each once, in its turn, from an empty
// KV cache; the first token that is generated comes with the prompt and does
// not count. Afterwards the drive is measured, in reads as large as those were,
// and what the tokens read is read again, by itself.
// kInvalidArgument: PickPrompts' errors. Else the errors of Session::Create and
// Session::Decode; a drive that cannot be measured leaves the row without.
Result<BudgetRow> RunBudgetBench(std::shared_ptr<const model::Model> model,
                                 const BudgetBenchOptions& options);

// A row per budget. Keys of JSON: docs/cli.md.
std::string FormatBudgetBench(const std::vector<BudgetRow>& rows,
                              BenchFormat format);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_BUDGET_BENCH_H_
