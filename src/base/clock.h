// Wall-clock durations.
#ifndef THERMOCLINE_BASE_CLOCK_H_
#define THERMOCLINE_BASE_CLOCK_H_

#include <chrono>

namespace thermocline {

// Starts when constructed. Thread-compatible.
class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  void Restart() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_CLOCK_H_
