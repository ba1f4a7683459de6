#include "npu/hand_over.h"

#include "base/clock.h"
#include "os/start_thread.h"

namespace thermocline::npu {

Status HandOver::Start() {
  if (sink_ == nullptr) return {};
  TC_ASSIGN_OR_RETURN(
      thread_, os::StartThread("a thread that hands over keys and values",
                               [this] { Work(); }));
  return {};
}

HandOver::~HandOver() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HandOver::Add(size_t layer_idx, int64_t first, int64_t count) {
  if (sink_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({layer_idx, first, count});
  }
  changed_.notify_all();
}

void HandOver::Finish(StaticTimes& times) {
  if (sink_ == nullptr) return;
  const Stopwatch watch;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() && !is_working_; });
  times.hand_over_wait_s += watch.Seconds();
  times.hand_over_s += busy_s_;
  busy_s_ = 0.0;
}

void HandOver::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Rows rows = waiting_.front();
    waiting_.pop_front();
    is_working_ = true;
    lock.unlock();
    const Stopwatch watch;
    kv_->Give(rows.layer_idx, rows.first, rows.count, *sink_, key_rows_);
    const double seconds = watch.Seconds();
    lock.lock();
    busy_s_ += seconds;
    is_working_ = false;
    changed_.notify_all();
  }
}

}  // namespace thermocline::npu
