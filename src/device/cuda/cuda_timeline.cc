#include "device/cuda/cuda_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace thermocline::device {
namespace {

// A float of milliseconds keeps half a microsecond for so long.
constexpr double kAnchorSecondsMax = 2.0;

// Of a call that only draws; what it says is nobody's error.
bool Worked(cudaError_t error) {
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  return false;
}

std::optional<double> SecondsBetween(cudaEvent_t begin, cudaEvent_t end) {
  float ms = 0.0F;
  if (!Worked(cudaEventElapsedTime(&ms, begin, end))) return std::nullopt;
  return static_cast<double>(ms) / 1e3;
}

}  // namespace

CudaTimeline::CudaTimeline(Timeline* timeline, std::string process)
    : timeline_(timeline),
      process_(std::move(process)),
      up_(timeline->AddRow(process_, "link up")),
      down_(timeline->AddRow(process_, "link down")) {}

CudaTimeline::~CudaTimeline() {
  Read();
  for (StreamState& stream : streams_) {
    for (const Waiting& span : stream.waiting) {
      timeline_->Drop();
      free_.insert(free_.end(), {span.begin, span.end});
    }
    free_.push_back(stream.begun);
  }
  free_.push_back(anchor_);
  for (const cudaEvent_t event : free_) {
    if (event != nullptr) (void)Worked(cudaEventDestroy(event));
  }
}

void CudaTimeline::AddBuffer(const void* data, size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  buffers_.emplace(data, num_bytes);
}

void CudaTimeline::RemoveBuffer(const void* data) {
  const std::lock_guard lock(mutex_);
  buffers_.erase(data);
}

bool CudaTimeline::IsOnDevice(const void* data) const {
  const auto next = buffers_.upper_bound(data);
  if (next == buffers_.begin()) return false;
  const auto& [begin, num_bytes] = *std::prev(next);
  return static_cast<const std::byte*>(data) <
         static_cast<const std::byte*>(begin) + num_bytes;
}

CudaTimeline::StreamState& CudaTimeline::StateOf(size_t stream_idx) {
  while (streams_.size() <= stream_idx) {
    streams_.push_back(
        {.row = timeline_->AddRow(process_,
                                  fmt::format("stream {}", streams_.size()))});
  }
  return streams_[stream_idx];
}

cudaEvent_t CudaTimeline::TakeEvent(cudaStream_t handle) {
  cudaEvent_t event = nullptr;
  if (!free_.empty()) {
    event = free_.back();
    free_.pop_back();
  } else if (!Worked(cudaEventCreateWithFlags(&event, cudaEventDefault))) {
    return nullptr;
  }
  if (Worked(cudaEventRecord(event, handle))) return event;
  free_.push_back(event);
  return nullptr;
}

bool CudaTimeline::Anchor(cudaStream_t handle) {
  if (anchor_ != nullptr) return true;
  const double before_s = timeline_->Now();
  const cudaEvent_t event = TakeEvent(handle);
  if (event == nullptr) return false;
  if (!Worked(cudaEventSynchronize(event))) {
    free_.push_back(event);
    return false;
  }
  anchor_ = event;
  anchor_s_ = (before_s + timeline_->Now()) / 2.0;
  return true;
}

void CudaTimeline::Begin(size_t stream_idx, cudaStream_t handle) {
  const std::lock_guard lock(mutex_);
  StreamState& stream = StateOf(stream_idx);
  if (num_waiting_ >= kWaitingMax) ReadLocked();
  if (num_waiting_ >= kWaitingMax || !Anchor(handle)) return;
  if (stream.begun == nullptr) stream.begun = TakeEvent(handle);
}

void CudaTimeline::End(size_t stream_idx, cudaStream_t handle,
                       std::string_view name) {
  const std::lock_guard lock(mutex_);
  Finish(stream_idx, handle, {.name = name});
}

void CudaTimeline::EndCopy(size_t stream_idx, cudaStream_t handle,
                           const void* to, const void* from, size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  Waiting span = {.name = "copy", .num_bytes = num_bytes};
  const bool is_to_device = IsOnDevice(to);
  if (is_to_device != IsOnDevice(from)) {
    span.name = is_to_device ? "copy up" : "copy down";
    span.link = is_to_device ? up_ : down_;
  }
  Finish(stream_idx, handle, span);
}

void CudaTimeline::Finish(size_t stream_idx, cudaStream_t handle,
                          Waiting span) {
  StreamState& stream = StateOf(stream_idx);
  span.begin = std::exchange(stream.begun, nullptr);
  if (span.begin == nullptr) return timeline_->Drop();
  span.end = TakeEvent(handle);
  if (span.end == nullptr) {
    free_.push_back(span.begin);
    return timeline_->Drop();
  }
  stream.waiting.push_back(span);
  ++num_waiting_;
}

void CudaTimeline::Read() {
  const std::lock_guard lock(mutex_);
  ReadLocked();
}

void CudaTimeline::ReadLocked() {
  for (StreamState& stream : streams_) {
    while (!stream.waiting.empty()) {
      Waiting& span = stream.waiting.front();
      if (!Worked(cudaEventQuery(span.end))) break;
      Draw(stream.row, span);
      free_.insert(free_.end(), {span.begin, span.end});
      stream.waiting.pop_front();
      --num_waiting_;
    }
  }
}

void CudaTimeline::Draw(Timeline::Row row, Waiting& span) {
  const auto since = SecondsBetween(anchor_, span.begin);
  const auto taken = SecondsBetween(span.begin, span.end);
  if (!since || !taken) return timeline_->Drop();
  const double begin_s = anchor_s_ + *since;
  const double end_s = begin_s + *taken;
  AddTo(row, span, begin_s, end_s);
  // One at a time has the link: what else a copy took, it stood in line.
  if (span.link) AddTo(*span.link, span, begin_s, end_s);
  if (*since < kAnchorSecondsMax) return;
  std::swap(anchor_, span.end);
  anchor_s_ = end_s;
}

void CudaTimeline::AddTo(Timeline::Row row, const Waiting& span, double begin_s,
                         double end_s) {
  double& row_end_s = row_ends_s_[row];
  begin_s = std::max(begin_s, row_end_s);
  row_end_s = std::max(begin_s, end_s);
  timeline_->Add(row, {.name = span.name,
                       .begin_s = begin_s,
                       .end_s = row_end_s,
                       .num_bytes = span.num_bytes});
}

}  // namespace thermocline::device
