#include "device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/units.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/row_layout.h"
#include "device/sim/op_check.h"
#include "device/sim/op_ranges.h"
#include "kernels/cuda/launch.h"

namespace thermocline::device {
namespace {

// Each thread has a device that its calls go to.
Status UseOnThisThread(int index, std::string_view id) {
  thread_local int used = -1;
  if (used == index) return {};
  const cudaError_t error = cudaSetDevice(index);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return Fail(ErrorCode::kIo, "{}: CUDA does not start on it: {}", id,
                CudaWords(error));
  }
  used = index;
  return {};
}

// Threads: the mutex guards what Synchronize and IsReached look at, which may
// be called beside another call. It is not held while anything waits.
class CudaDevice : public Device {
 public:
  CudaDevice(int index, std::string id, DeviceInfo info)
      : index_(index), id_(std::move(id)), info_(std::move(info)) {}
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
  void SetCaptures(Stream stream, bool captures);

  const int index_;
  const std::string id_;
  const DeviceInfo info_;
  int least_priority_ = 0, greatest_priority_ = 0;
  std::array<uint64_t, 2> allocated_ = {}, peak_ = {};
  std::vector<Memory> unfreed_;  // CUDA would not free these when it was asked
  std::vector<cudaGraphExec_t> graphs_;
  std::vector<cudaGraph_t> plans_;  // likewise

  mutable std::mutex mutex_;
  std::vector<CudaStream> streams_;
  std::vector<cudaEvent_t> events_;
  mutable std::string lost_;  // why; empty: it is not
};

CudaDevice::~CudaDevice() {
  (void)UseOnThisThread(index_, id_);
  (void)FreeLate();
  for (const cudaGraph_t plan : plans_) (void)cudaGraphDestroy(plan);
  for (const cudaGraphExec_t graph : graphs_) (void)cudaGraphExecDestroy(graph);
  for (const cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  for (const CudaStream& stream : streams_) {
    (void)cudaStreamDestroy(stream.handle);
  }
  (void)cudaGetLastError();
}

Status CudaDevice::Start() {
  TC_RETURN_IF_ERROR(Enter());
  return Check(
      cudaDeviceGetStreamPriorityRange(&least_priority_, &greatest_priority_),
      "asking for the priorities of streams");
}

Status CudaDevice::Enter() const {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.empty()) return Fail(ErrorCode::kIo, "{}", lost_);
  }
  return UseOnThisThread(index_, id_);
}

Status CudaDevice::Check(cudaError_t error, std::string_view what) const {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // or the next operation would report it again
  const std::string message =
      fmt::format("{}: {}: {}", id_, what, CudaWords(error));
  switch (FailureOf(error)) {
    case CudaFailure::kMemory:
      return Fail(ErrorCode::kResourceExhausted, "{}", message);
    case CudaFailure::kArgument:
      return Fail(ErrorCode::kCorrupt, "{}", message);
    case CudaFailure::kUnsupported:
      return Fail(ErrorCode::kUnsupported, "{}", message);
    case CudaFailure::kNone:
    case CudaFailure::kLost:
      break;
  }
  const std::lock_guard lock(mutex_);
  if (lost_.empty()) {
    lost_ = fmt::format("{}: device lost, noticed when {}: {}", id_, what,
                        CudaWords(error));
  }
  return Fail(ErrorCode::kIo, "{}", lost_);
}

tl::unexpected<Error> CudaDevice::Wrong(std::string_view call,
                                        std::string_view what) const {
  return Fail(ErrorCode::kInvalidArgument, "{}: {}: {}", id_, call, what);
}

Result<CudaDevice::CudaStream> CudaDevice::Find(std::string_view call,
                                                Stream stream) const {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<size_t>(stream);
  if (index >= streams_.size()) return Wrong(call, "no such stream");
  return streams_[index];
}

Result<cudaEvent_t> CudaDevice::Find(std::string_view call, Event event) const {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<size_t>(event);
  if (index >= events_.size()) return Wrong(call, "no such event");
  return events_[index];
}

Result<cudaGraphExec_t> CudaDevice::Find(std::string_view call,
                                         Graph graph) const {
  const auto index = static_cast<size_t>(graph);
  if (index >= graphs_.size()) return Wrong(call, "no such graph");
  return graphs_[index];
}

void CudaDevice::SetCaptures(Stream stream, bool captures) {
  const std::lock_guard lock(mutex_);
  streams_[static_cast<size_t>(stream)].captures = captures;
}

Result<DeviceInfo> CudaDevice::Info() const {
  TC_RETURN_IF_ERROR(Enter());
  size_t free = 0, total = 0;
  TC_RETURN_IF_ERROR(
      Check(cudaMemGetInfo(&free, &total), "asking for its free memory"));
  DeviceInfo info = info_;
  info.free_bytes = free;
  return info;
}

Result<Buffer> CudaDevice::Allocate(size_t num_bytes, MemoryKind kind,
                                    std::string_view what) {
  TC_RETURN_IF_ERROR(Enter());
  TC_RETURN_IF_ERROR(FreeLate());
  if (num_bytes == 0) return Buffer();
  void* data = nullptr;
  const bool is_pinned = kind == MemoryKind::kPinned;
  const cudaError_t error =
      is_pinned ? cudaHostAlloc(&data, num_bytes,
                                cudaHostAllocPortable | cudaHostAllocMapped)
                : cudaMalloc(&data, num_bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    if (is_pinned) {
      return Fail(ErrorCode::kResourceExhausted,
                  "{}: the host has no {} to lock for {}", id_,
                  FormatBytes(num_bytes), what);
    }
    TC_ASSIGN_OR_RETURN(const DeviceInfo info, Info());
    return Fail(ErrorCode::kResourceExhausted,
                "{}: no memory for {}: {} are asked for, {} are free", id_,
                what, FormatBytes(num_bytes), FormatBytes(info.free_bytes));
  }
  TC_RETURN_IF_ERROR(Check(error, fmt::format("{} were asked for, for {}",
                                              FormatBytes(num_bytes), what)));
  const size_t index = static_cast<size_t>(kind);
  allocated_[index] += num_bytes;
  peak_[index] = std::max(peak_[index], allocated_[index]);
  Buffer buffer(this, kind, static_cast<std::byte*>(data), num_bytes);
  if (is_pinned) {
    void* on_device = nullptr;
    TC_RETURN_IF_ERROR(
        Check(cudaHostGetDevicePointer(&on_device, data, 0),
              fmt::format("locked memory for {} was to be mapped", what)));
    if (on_device != data) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: it knows the host's locked memory by other addresses "
                  "than the host does",
                  id_);
    }
  }
  return buffer;
}

void CudaDevice::Free(MemoryKind kind, std::byte* data, size_t num_bytes) {
  allocated_[static_cast<size_t>(kind)] -= num_bytes;
  unfreed_.push_back({kind, data, num_bytes});
  if (Enter()) (void)FreeLate();
}

// Memory that CUDA does not free stays in the list for the next call to try.
// That of a lost device is gone.
Status CudaDevice::FreeLate() {
  while (!unfreed_.empty()) {
    const Memory memory = unfreed_.back();
    const cudaError_t error = memory.kind == MemoryKind::kPinned
                                  ? cudaFreeHost(memory.data)
                                  : cudaFree(memory.data);
    TC_RETURN_IF_ERROR(Check(
        error,
        fmt::format("{} were to be freed", FormatBytes(memory.num_bytes))));
    unfreed_.pop_back();
  }
  return {};
}

Result<Stream> CudaDevice::MakeStream(Priority priority) {
  TC_RETURN_IF_ERROR(Enter());
  cudaStream_t stream = nullptr;
  TC_RETURN_IF_ERROR(Check(
      cudaStreamCreateWithPriority(
          &stream, cudaStreamNonBlocking,
          priority == Priority::kHigh ? greatest_priority_ : least_priority_),
      "a stream was asked for"));
  const std::lock_guard lock(mutex_);
  streams_.push_back({.handle = stream});
  return static_cast<Stream>(streams_.size() - 1);
}

Result<Event> CudaDevice::MakeEvent() {
  TC_RETURN_IF_ERROR(Enter());
  cudaEvent_t event = nullptr;
  TC_RETURN_IF_ERROR(
      Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
            "an event was asked for"));
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
  return static_cast<Event>(events_.size() - 1);
}

Status CudaDevice::Copy(Stream stream, void* to, const void* from,
                        size_t num_bytes) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Copy", stream));
  if (num_bytes == 0) return {};
  return Check(
      cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, at.handle),
      "a copy was enqueued");
}

Status CudaDevice::Fill(Stream stream, void* to, uint8_t value,
                        size_t num_bytes) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Fill", stream));
  if (num_bytes == 0) return {};
  return Check(cudaMemsetAsync(to, value, num_bytes, at.handle),
               "a fill was enqueued");
}

Status CudaDevice::Run(Stream stream, const kernels::DeviceOp& op) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Run", stream));
  if (const Status status = CheckOp(op, layout()); !status) {
    return Annotate(id_, status.error());
  }
  std::visit([&](const auto& args) { cuda::Launch(args, at.handle); }, op);
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return Check(error, fmt::format("{} was enqueued", NameOf(op)));
}

Status CudaDevice::Record(Stream stream, Event event) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Record", stream));
  TC_ASSIGN_OR_RETURN(const cudaEvent_t of, Find("Record", event));
  if (at.captures) return Wrong("Record", "an event is no part of a graph");
  return Check(cudaEventRecord(of, at.handle), "an event was recorded");
}

Status CudaDevice::Wait(Stream stream, Event event) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Wait", stream));
  TC_ASSIGN_OR_RETURN(const cudaEvent_t of, Find("Wait", event));
  if (at.captures) return Wrong("Wait", "an event is no part of a graph");
  return Check(cudaStreamWaitEvent(at.handle, of, 0),
               "a stream was told to wait for an event");
}

// Relaxed: other calls between the two are what they are without a graph.
Status CudaDevice::BeginGraph(Stream stream) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("BeginGraph", stream));
  if (at.captures) return Wrong("BeginGraph", "the stream has begun a graph");
  TC_RETURN_IF_ERROR(
      Check(cudaStreamBeginCapture(at.handle, cudaStreamCaptureModeRelaxed),
            "a graph was begun"));
  SetCaptures(stream, true);
  return {};
}

Result<Graph> CudaDevice::EndGraph(Stream stream) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("EndGraph", stream));
  if (!at.captures) return Wrong("EndGraph", "the stream began no graph");
  SetCaptures(stream, false);
  cudaGraph_t graph = nullptr;
  const Status ended =
      Check(cudaStreamEndCapture(at.handle, &graph), "a graph was ended");
  if (!ended) {
    // If the stream captures even so, that ends: it is to work on.
    if (cudaStreamEndCapture(at.handle, &graph) == cudaSuccess) {
      (void)cudaGraphDestroy(graph);
    }
    (void)cudaGetLastError();
    return tl::unexpected(ended.error());
  }
  cudaGraphExec_t executable = nullptr;
  const Status made = Check(cudaGraphInstantiate(&executable, graph, 0),
                            "a graph was made ready");
  // No longer needed. If it cannot go now, it goes with the device.
  if (!Check(cudaGraphDestroy(graph), "a graph's plan was thrown away")) {
    plans_.push_back(graph);
  }
  TC_RETURN_IF_ERROR(made);
  graphs_.push_back(executable);
  return static_cast<Graph>(graphs_.size() - 1);
}

Status CudaDevice::Launch(Stream stream, Graph graph) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Launch", stream));
  TC_ASSIGN_OR_RETURN(const cudaGraphExec_t of, Find("Launch", graph));
  if (at.captures) return Wrong("Launch", "a graph is no part of a graph");
  return Check(cudaGraphLaunch(of, at.handle), "a graph was launched");
}

Status CudaDevice::Synchronize(Event event) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const cudaEvent_t of, Find("Synchronize", event));
  return Check(cudaEventSynchronize(of), "an event was awaited");
}

Status CudaDevice::Synchronize(Stream stream) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Synchronize", stream));
  if (at.captures) return Wrong("Synchronize", "the stream has begun a graph");
  return Check(cudaStreamSynchronize(at.handle), "a stream was awaited");
}

Result<bool> CudaDevice::IsReached(Event event) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const cudaEvent_t of, Find("IsReached", event));
  const cudaError_t error = cudaEventQuery(of);
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  TC_RETURN_IF_ERROR(Check(error, "an event was asked about"));
  return true;
}

// Of a card, its context included; an error says why it cannot be used.
Result<DeviceInfo> InfoOfCard(int index) {
  const std::string id = fmt::format("cuda{}", index);
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, index);
      error != cudaSuccess) {
    (void)cudaGetLastError();
    return Fail(ErrorCode::kIo, "{}: CUDA does not describe it: {}", id,
                CudaWords(error));
  }
  const std::string why =
      WhyCardIsRefused(properties.name, properties.major, properties.minor);
  if (!why.empty()) return Fail(ErrorCode::kUnsupported, "{}: {}", id, why);
  TC_RETURN_IF_ERROR(UseOnThisThread(index, id));
  size_t free = 0, total = 0;
  if (const cudaError_t error = cudaMemGetInfo(&free, &total);
      error != cudaSuccess) {
    (void)cudaGetLastError();
    return Fail(ErrorCode::kIo, "{}: {} does not start: {}", id,
                properties.name, CudaWords(error));
  }
  return DeviceInfo{.id = id,
                    .name = properties.name,
                    .total_bytes = total,
                    .free_bytes = free,
                    .major = properties.major,
                    .minor = properties.minor};
}

// How many cards there are; if none, why.
int CountCards(std::string* why_none) {
  int driver_version = 0;
  if (cudaDriverGetVersion(&driver_version) != cudaSuccess) driver_version = 0;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  (void)cudaGetLastError();
  *why_none = WhyNoCuda(error, driver_version);
  return 0;
}

}  // namespace

Found FindCudaDevices() {
  Found found;
  const int count = CountCards(&found.why_none);
  std::string refused;
  for (int index = 0; index < count; ++index) {
    Result<DeviceInfo> info = InfoOfCard(index);
    if (info) {
      found.devices.push_back(*std::move(info));
    } else {
      refused += (refused.empty() ? "" : "; ") + info.error().message;
    }
  }
  if (found.devices.empty() && !refused.empty()) found.why_none = refused;
  return found;
}

Result<std::unique_ptr<Device>> OpenCuda(int index) {
  std::string why_none;
  const int count = CountCards(&why_none);
  if (count == 0)
    return Fail(ErrorCode::kNotFound, "cuda{}: {}", index, why_none);
  if (index < 0 || index >= count) {
    return Fail(ErrorCode::kNotFound, "cuda{}: no such GPU: there {} {}", index,
                count == 1 ? "is" : "are", count);
  }
  TC_ASSIGN_OR_RETURN(DeviceInfo info, InfoOfCard(index));
  const std::string id = info.id;
  auto device = std::make_unique<CudaDevice>(index, id, std::move(info));
  TC_RETURN_IF_ERROR(device->Start());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace thermocline::device
