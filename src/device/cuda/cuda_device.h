// A GPU as a device, by CUDA's runtime. What opens one is in find_cuda.h.
#ifndef THERMOCLINE_DEVICE_CUDA_CUDA_DEVICE_H_
#define THERMOCLINE_DEVICE_CUDA_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/timeline.h"
#include "device/cuda/cuda_timeline.h"
#include "device/device.h"
#include "kernels/device_ops.h"

namespace thermocline::device {

// How rows lie on a GPU (kernels/cuda/device_rows.h).
const RowLayout& CudaRowLayout();

// Each thread has a device that its calls go to.
Status UseOnThisThread(int index, std::string_view id);

// Threads: the mutex guards what Synchronize and IsReached look at, which may
// be called beside another call. It is not held while anything waits.
class CudaDevice : public Device {
 public:
  // Draws what it does in `timeline`, if there is one, which outlives it.
  CudaDevice(int index, std::string id, DeviceInfo info, Timeline* timeline)
      : index_(index), id_(std::move(id)), info_(std::move(info)) {
    if (timeline != nullptr) timeline_.emplace(timeline, id_);
  }
  ~CudaDevice() override;
  // Before all else.
  Status Start();

  Result<DeviceInfo> Info() const override;
  const RowLayout& layout() const override { return CudaRowLayout(); }

  Result<Buffer> Allocate(size_t num_bytes, MemoryKind kind,
                          std::string_view what) override;
  uint64_t allocated_bytes(MemoryKind kind) const override {
    return allocated_[static_cast<size_t>(kind)];
  }
  uint64_t peak_bytes(MemoryKind kind) const override {
    return peak_[static_cast<size_t>(kind)];
  }

  Result<Stream> MakeStream(Priority priority) override;
  Result<Event> MakeEvent() override;

  Status Copy(Stream stream, void* to, const void* from,
              size_t num_bytes) override;
  Status Fill(Stream stream, void* to, uint8_t value,
              size_t num_bytes) override;
  Status Run(Stream stream, const kernels::DeviceOp& op) override;
  Status Record(Stream stream, Event event) override;
  Status Wait(Stream stream, Event event) override;

  Status BeginGraph(Stream stream) override;
  Result<Graph> EndGraph(Stream stream) override;
  Status Launch(Stream stream, Graph graph) override;

  Status Synchronize(Event event) override;
  Status Synchronize(Stream stream) override;
  Result<bool> IsReached(Event event) override;

 private:
  struct CudaStream {
    cudaStream_t handle = nullptr;
    bool captures = false;  // a graph
  };
  struct Memory {
    MemoryKind kind;
    void* data;
    size_t num_bytes;
  };

  // Of an allocation that failed: what there is.
  tl::unexpected<Error> NoMemory(size_t num_bytes, MemoryKind kind,
                                 std::string_view what) const;
  void Free(MemoryKind kind, std::byte* data, size_t num_bytes) override;
  // Every call begins with it: what the device died of, before or now.
  Status Enter() const;
  Status FreeLate();
  // What a call of CUDA's came to, `what` being what it was to do.
  Status Check(cudaError_t error, std::string_view what) const;
  tl::unexpected<Error> Wrong(std::string_view call,
                              std::string_view what) const;
  // Of handles that there are.
  Result<CudaStream> Find(std::string_view call, Stream stream) const;
  Result<cudaEvent_t> Find(std::string_view call, Event event) const;
  Result<cudaGraphExec_t> Find(std::string_view call, Graph graph) const;
  // What draws work of that stream; null: nobody does.
  CudaTimeline* Drawing(const CudaStream& stream) {
    return timeline_ && !stream.captures ? &*timeline_ : nullptr;
  }
  void SetCaptures(Stream stream, bool captures);

  const int index_;
  const std::string id_;
  const DeviceInfo info_;
  int least_priority_ = 0, greatest_priority_ = 0;
  std::array<uint64_t, 2> allocated_ = {}, peak_ = {};
  std::vector<Memory> unfreed_;  // CUDA would not free these when it was asked
  std::vector<cudaGraphExec_t> graphs_;
  std::vector<cudaGraph_t> plans_;  // likewise

  std::optional<CudaTimeline> timeline_;

  mutable std::mutex mutex_;
  std::vector<CudaStream> streams_;
  std::vector<cudaEvent_t> events_;
  mutable std::string lost_;  // why; empty: it is not
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_CUDA_CUDA_DEVICE_H_
