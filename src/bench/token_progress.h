// Tells how far a measurement is, in tokens.
#ifndef THERMOCLINE_BENCH_TOKEN_PROGRESS_H_
#define THERMOCLINE_BENCH_TOKEN_PROGRESS_H_

#include <cstdint>

#include "base/progress.h"

namespace thermocline::bench {

// Counts the tokens of the warm-ups and of the repetitions that were asked for.
// The count that it reports grows with each report. Threads: one at a time.
class TokenProgress {
 public:
  TokenProgress(const ProgressFn& progress, uint64_t num_total)
      : progress_(progress), num_total_(num_total) {}

  // What fills the cache, and repetitions that make up for others, do not
  // count.
  void Mute(bool muted) { muted_ = muted; }
  void Add(uint64_t num_new);
  // Of a prefill that is under way.
  void Show(uint64_t num_of_prompt);

 private:
  const ProgressFn& progress_;
  uint64_t num_total_;
  uint64_t num_done_ = 0;
  uint64_t num_reported_ = 0;
  bool muted_ = false;
};

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_TOKEN_PROGRESS_H_
