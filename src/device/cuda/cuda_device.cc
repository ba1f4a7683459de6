#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "base/units.h"
#include "device/cuda/cuda_error.h"
#include "device/sim/op_check.h"
#include "kernels/cuda/device_rows.h"
#include "kernels/cuda/launch.h"

namespace thermocline::device {
namespace {

class CudaRows : public RowLayout {
 public:
  bool CanCompute(DType dtype) const override { return cuda::CanLaunch(dtype); }

  size_t RowBytes(DType dtype, size_t n) const override {
    TC_CHECK(CanCompute(dtype));
    return cuda::DeviceRowBytes(dtype, n);
  }

  void Pack(DType dtype, const std::byte* row, size_t n,
            std::byte* out) const override {
    TC_CHECK(CanCompute(dtype));
    cuda::PackDeviceRow(dtype, row, n, out);
  }
};

}  // namespace

const RowLayout& CudaRowLayout() {
  static const CudaRows layout;
  return layout;
}

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

CudaDevice::~CudaDevice() {
  (void)UseOnThisThread(index_, id_);
  timeline_.reset();
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

tl::unexpected<Error> CudaDevice::NoMemory(size_t num_bytes, MemoryKind kind,
                                           std::string_view what) const {
  if (kind == MemoryKind::kPinned) {
    return Fail(ErrorCode::kResourceExhausted,
                "{}: the host has no {} to lock for {}", id_,
                FormatBytes(num_bytes), what);
  }
  const Result<DeviceInfo> info = Info();
  if (!info) return tl::unexpected(info.error());
  return Fail(ErrorCode::kResourceExhausted,
              "{}: no memory for {}: {} are asked for, {} are free", id_, what,
              FormatBytes(num_bytes), FormatBytes(info->free_bytes));
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
    return NoMemory(num_bytes, kind, what);
  }
  TC_RETURN_IF_ERROR(Check(error, fmt::format("{} were asked for, for {}",
                                              FormatBytes(num_bytes), what)));
  const size_t index = static_cast<size_t>(kind);
  allocated_[index] += num_bytes;
  peak_[index] = std::max(peak_[index], allocated_[index]);
  if (timeline_ && !is_pinned) timeline_->AddBuffer(data, num_bytes);
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
  if (timeline_) timeline_->RemoveBuffer(data);
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
  CudaTimeline* const drawing = Drawing(at);
  const auto stream_idx = static_cast<size_t>(stream);
  if (drawing != nullptr) drawing->Begin(stream_idx, at.handle);
  const Status copied =
      Check(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, at.handle),
            "a copy was enqueued");
  if (drawing != nullptr) {
    drawing->EndCopy(stream_idx, at.handle, to, from, num_bytes);
  }
  return copied;
}

Status CudaDevice::Fill(Stream stream, void* to, uint8_t value,
                        size_t num_bytes) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Fill", stream));
  if (num_bytes == 0) return {};
  const CudaSpan span(Drawing(at), static_cast<size_t>(stream), at.handle,
                      "fill");
  return Check(cudaMemsetAsync(to, value, num_bytes, at.handle),
               "a fill was enqueued");
}

Status CudaDevice::Run(Stream stream, const kernels::DeviceOp& op) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Run", stream));
  if (const Status status = CheckOp(op, layout()); !status) {
    return Annotate(id_, status.error());
  }
  const CudaSpan span(Drawing(at), static_cast<size_t>(stream), at.handle,
                      ShortNameOf(op));
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
  const CudaSpan span(Drawing(at), static_cast<size_t>(stream), at.handle,
                      "graph");
  return Check(cudaGraphLaunch(of, at.handle), "a graph was launched");
}

Status CudaDevice::Synchronize(Event event) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const cudaEvent_t of, Find("Synchronize", event));
  const Status awaited =
      Check(cudaEventSynchronize(of), "an event was awaited");
  if (timeline_) timeline_->Read();
  return awaited;
}

Status CudaDevice::Synchronize(Stream stream) {
  TC_RETURN_IF_ERROR(Enter());
  TC_ASSIGN_OR_RETURN(const CudaStream at, Find("Synchronize", stream));
  if (at.captures) return Wrong("Synchronize", "the stream has begun a graph");
  const Status awaited =
      Check(cudaStreamSynchronize(at.handle), "a stream was awaited");
  if (timeline_) timeline_->Read();
  return awaited;
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

}  // namespace thermocline::device
