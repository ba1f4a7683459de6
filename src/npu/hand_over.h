// Brings new keys and values to the host's cache while graphs compute on.
#ifndef THERMOCLINE_NPU_HAND_OVER_H_
#define THERMOCLINE_NPU_HAND_OVER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "npu/static_kv.h"

namespace thermocline::npu {

// Of one run. What graphs read is also what is copied from: positions that were
// kept do not change while the next are computed, so that nothing need be
// doubled.
// Threads  one caller; a thread of its own calls the sink, in the order of Add.
class HandOver {
 public:
  // sink: null: nothing is handed over. key_rows: as StaticKv::Give's, of the
  // most rows of an Add. All outlive this.
  HandOver(const StaticKv* kv, const KvSink* sink, uint16_t* key_rows)
      : kv_(kv), sink_(sink), key_rows_(key_rows) {}
  // Drops what has not been begun.
  ~HandOver();
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;

  // Before anything else. kResourceExhausted: no thread.
  Status Start();
  void Add(size_t layer_idx, int64_t first, int64_t count);
  // Waits until all is handed over; then times are `times`' too.
  void Finish(StaticTimes& times);

 private:
  struct Rows {
    size_t layer_idx;
    int64_t first;
    int64_t count;
  };

  void Work();

  const StaticKv* kv_;
  const KvSink* sink_;
  uint16_t* key_rows_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Rows> waiting_;
  bool is_working_ = false;
  bool ends_ = false;
  double busy_s_ = 0.0;
  std::thread thread_;  // without a sink none
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_HAND_OVER_H_
