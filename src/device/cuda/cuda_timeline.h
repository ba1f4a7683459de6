// Draws what a GPU does: events with times around all that is enqueued, read
// when somebody has waited anyway.
#ifndef THERMOCLINE_DEVICE_CUDA_CUDA_TIMELINE_H_
#define THERMOCLINE_DEVICE_CUDA_CUDA_TIMELINE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/timeline.h"

namespace thermocline::device {

// Nothing fails by it: where CUDA gives no time, spans are counted as dropped.
// Times are the device's, to half a microsecond, put on the host's clock, to
// some microseconds.
// Threads  any.
// Cost     two events for each span, and three calls of CUDA's when it is read.
class CudaTimeline {
 public:
  // As many spans may wait to be read; more are dropped.
  static constexpr size_t kWaitingMax = 4096;

  // Outlived by `timeline`. process: "cuda0".
  CudaTimeline(Timeline* timeline, std::string process);
  ~CudaTimeline();
  CudaTimeline(const CudaTimeline&) = delete;
  CudaTimeline& operator=(const CudaTimeline&) = delete;

  // Memory of the device's own, by which copies are up, down or neither.
  void AddBuffer(const void* data, size_t num_bytes);
  void RemoveBuffer(const void* data);

  // Between the two something is enqueued into the stream, which captures no
  // graph. The second one has the span's name, and bytes if they are known.
  void Begin(size_t stream_idx, cudaStream_t handle);
  void End(size_t stream_idx, cudaStream_t handle, std::string_view name);
  void EndCopy(size_t stream_idx, cudaStream_t handle, const void* to,
               const void* from, size_t num_bytes);

  // Draws all that is done by now.
  void Read();

 private:
  struct Waiting {
    cudaEvent_t begin = nullptr, end = nullptr;
    std::string_view name;
    std::optional<uint64_t> num_bytes;
    std::optional<Timeline::Row> link;
  };
  struct StreamState {
    Timeline::Row row;
    cudaEvent_t begun = nullptr;  // by Begin
    std::deque<Waiting> waiting;
  };

  // All of the following want the lock.
  StreamState& StateOf(size_t stream_idx);
  // Null: there is none.
  cudaEvent_t TakeEvent(cudaStream_t handle);
  void Finish(size_t stream_idx, cudaStream_t handle, Waiting span);
  // When the host's clock and the device's were the same moment.
  bool Anchor(cudaStream_t handle);
  void ReadLocked();
  void Draw(Timeline::Row row, Waiting& span);
  void AddTo(Timeline::Row row, const Waiting& span, double begin_s,
             double end_s);
  bool IsOnDevice(const void* data) const;

  Timeline* timeline_;
  const std::string process_;
  const Timeline::Row up_, down_;
  std::mutex mutex_;
  std::map<const void*, size_t> buffers_;
  std::vector<StreamState> streams_;
  std::vector<cudaEvent_t> free_;
  size_t num_waiting_ = 0;
  cudaEvent_t anchor_ = nullptr;
  double anchor_s_ = 0.0;
  std::map<Timeline::Row, double> row_ends_s_;
};

// Draws what is enqueued while it lives; null: nothing.
class CudaSpan {
 public:
  CudaSpan(CudaTimeline* timeline, size_t stream_idx, cudaStream_t handle,
           std::string_view name)
      : timeline_(timeline),
        stream_idx_(stream_idx),
        handle_(handle),
        name_(name) {
    if (timeline_ != nullptr) timeline_->Begin(stream_idx_, handle_);
  }
  ~CudaSpan() {
    if (timeline_ != nullptr) timeline_->End(stream_idx_, handle_, name_);
  }
  CudaSpan(const CudaSpan&) = delete;
  CudaSpan& operator=(const CudaSpan&) = delete;

 private:
  CudaTimeline* timeline_;
  size_t stream_idx_;
  cudaStream_t handle_;
  std::string_view name_;
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_CUDA_CUDA_TIMELINE_H_
