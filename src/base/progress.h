// How long work tells that it is alive.
#ifndef THERMOCLINE_BASE_PROGRESS_H_
#define THERMOCLINE_BASE_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string_view>

namespace thermocline {

// Called from the working thread, often (rate limiting is the receiver's job),
// with done <= total. Libraries take it by const reference and call it only
// when it is non-empty; see ReportProgress.
using ProgressFn = std::function<void(std::string_view what, uint64_t num_done,
                                      uint64_t num_total)>;

inline void ReportProgress(const ProgressFn& progress, std::string_view what,
                           uint64_t num_done, uint64_t num_total) {
  if (progress) progress(what, num_done, num_total);
}

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_PROGRESS_H_
