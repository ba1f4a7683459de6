#include "bench/token_progress.h"

namespace thermocline::bench {

void TokenProgress::Add(uint64_t num_new) {
  if (muted_) return;
  num_done_ += num_new;
  Show(0);
}

void TokenProgress::Show(uint64_t num_of_prompt) {
  const uint64_t num = num_done_ + num_of_prompt;
  // A prefill tells of its layers: the same count again is no progress.
  if (muted_ || num <= num_reported_) return;
  num_reported_ = num;
  ReportProgress(progress_, "bench", num, num_total_);
}

}  // namespace thermocline::bench
