#include "npu/hand_over.h"

#include "base/clock.h"

namespace thermocline::npu {

HandOver::HandOver(const StaticKv* kv, const KvSink* sink, uint16_t* key_rows)
    : kv_(kv), sink_(sink), key_rows_(key_rows) {
  if (sink_ != nullptr) thread_ = std::thread([this] { Work(); });
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
