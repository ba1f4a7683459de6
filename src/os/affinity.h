// On which CPUs a thread may run.
#ifndef THERMOCLINE_OS_AFFINITY_H_
#define THERMOCLINE_OS_AFFINITY_H_

#include <span>
#include <vector>

#include "base/status.h"

namespace thermocline::os {

// The calling thread runs on these CPUs alone, and so do threads that it
// starts, until `this` ends, which is in the same thread. kInvalidArgument: a
// CPU that the thread may not run on, with those it may; or none.
class OnCpus {
 public:
  static Result<OnCpus> Enter(std::span<const int> cpus);
  ~OnCpus();
  OnCpus(OnCpus&& other) noexcept;
  OnCpus& operator=(OnCpus&&) = delete;

  // Stays so when `this` ends.
  void Keep() { before_.clear(); }

 private:
  explicit OnCpus(std::vector<int> before) : before_(std::move(before)) {}
  std::vector<int> before_;
};

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_AFFINITY_H_
