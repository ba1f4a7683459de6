// A queue that keeps its memory.
#ifndef THERMOCLINE_STORAGE_RING_QUEUE_H_
#define THERMOCLINE_STORAGE_RING_QUEUE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace thermocline::storage {

// First in, first out. Grows when it is full and never shrinks, so that a
// reader allocates nothing once it has seen its longest queue; std::deque would
// with every few entries. Thread-compatible.
template <typename T>
class RingQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  void Push(T value) {
    if (size_ == entries_.size()) Grow();
    entries_[(first_ + size_) & (entries_.size() - 1)] = std::move(value);
    ++size_;
  }

  const T& front() const {
    TC_DCHECK(size_ > 0);
    return entries_[first_];
  }

  T Pop() {
    TC_DCHECK(size_ > 0);
    T value = std::move(entries_[first_]);
    first_ = (first_ + 1) & (entries_.size() - 1);
    --size_;
    return value;
  }

 private:
  void Grow() {
    // A power of two, so that places are found by a mask.
    std::vector<T> larger(entries_.empty() ? 16 : 2 * entries_.size());
    const size_t num = size_;
    for (size_t i = 0; i < num; ++i) larger[i] = Pop();
    entries_ = std::move(larger);
    first_ = 0;
    size_ = num;
  }

  std::vector<T> entries_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_RING_QUEUE_H_
