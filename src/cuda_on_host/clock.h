// What is known to have happened before what, across streams and the host.
#ifndef THERMOCLINE_CUDA_ON_HOST_CLOCK_H_
#define THERMOCLINE_CUDA_ON_HOST_CLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace thermocline::cuda_on_host {

// One operation: the tick-th of its stream.
struct Stamp {
  unsigned stream = 0;
  uint64_t tick = 0;
};

// For each stream, up to which tick its operations come before this point.
class Clock {
 public:
  bool Knows(const Stamp& stamp) const {
    return stamp.stream < ticks_.size() && ticks_[stamp.stream] >= stamp.tick;
  }
  void Join(const Clock& other) {
    if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
    for (size_t i = 0; i < other.ticks_.size(); ++i) {
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
    }
  }
  // The next operation of a stream.
  Stamp Advance(unsigned stream) {
    if (ticks_.size() <= stream) ticks_.resize(stream + 1);
    return {stream, ++ticks_[stream]};
  }

 private:
  std::vector<uint64_t> ticks_;
};

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_CLOCK_H_
