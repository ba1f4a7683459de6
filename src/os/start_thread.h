// Threads without exceptions: std::thread throws where the system gives none,
// and nobody here catches.
#ifndef THERMOCLINE_OS_START_THREAD_H_
#define THERMOCLINE_OS_START_THREAD_H_

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace thermocline::os {

// A thread that calls `work`, of which it has its own; the caller joins it.
// kResourceExhausted: the system gives no more, or no memory for its stack;
// `what` ("thread 2 of 4 that reads files") is named, and `work` was not
// called.
template <typename Work>
Result<std::thread> StartThread(std::string_view what, Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResourceExhausted, "cannot start {}: {}", what,
                error.code().message());
  }
}

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_START_THREAD_H_
