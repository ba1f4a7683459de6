#include "cuda_on_host/device.h"

#include <algorithm>
#include <utility>

#include "cuda_on_host/block.h"
#include "cuda_on_host/checker.h"

namespace thermocline::cuda_on_host {
namespace {

bool IsOfOneCall(cudaError_t error) {
  return error == cudaErrorMemoryAllocation || error == cudaErrorInvalidValue ||
         error == cudaErrorNotReady;
}

bool CanRun(const CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  const Operation& head = stream.queue.front();
  return !head.awaited || head.awaited->reached >= head.awaited_record;
}

}  // namespace

Device& Device::Get() {
  static Device device;
  return device;
}

Device::Device() {
  streams.push_back(std::make_unique<CUstream_st>());
  num_streams = 1;
  worker_ = std::thread([this] { Work(); });
}

Device::~Device() {
  {
    std::lock_guard lock(mutex);
    quit_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

cudaError_t Device::Enter(std::unique_lock<std::mutex>& lock) {
  lock = std::unique_lock(mutex);
  if (++num_calls == failing_call) {
    if (IsOfOneCall(call_error)) return Return(call_error);
    if (sticky == cudaSuccess) sticky = call_error;
  }
  return Return(sticky);
}

cudaError_t Device::Return(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last = error;
  return error;
}

CUstream_st* Device::StreamOf(void* handle) {
  if (handle == nullptr) return streams.front().get();
  for (const auto& stream : streams) {
    if (stream.get() == handle) return stream.get();
  }
  return nullptr;
}

std::shared_ptr<CUevent_st> Device::EventOf(cudaEvent_t handle) {
  for (const auto& event : events) {
    if (event.get() == handle) return event;
  }
  return nullptr;
}

void Device::Queue(CUstream_st& stream, Operation operation) {
  stream.clock.Join(host_clock);
  operation.stamp = stream.clock.Advance(stream.index);
  operation.clock = stream.clock;
  stream.queue.push_back(std::move(operation));
  changed_.notify_all();
}

void Device::Give(CUstream_st& stream, std::function<void()> run) {
  if (stream.capture) {
    stream.capture->runs.push_back(std::move(run));
    return;
  }
  Operation operation;
  operation.run = std::move(run);
  Queue(stream, std::move(operation));
}

void Device::Record(CUstream_st& stream,
                    const std::shared_ptr<CUevent_st>& event) {
  Operation operation;
  operation.recorded = event;
  operation.record = ++event->recorded;
  Queue(stream, std::move(operation));
  event->clock = stream.clock;
}

void Device::Await(CUstream_st& stream,
                   const std::shared_ptr<CUevent_st>& event) {
  stream.clock.Join(event->clock);
  Operation operation;
  operation.awaited = event;
  operation.awaited_record = event->recorded;
  Queue(stream, std::move(operation));
}

cudaError_t Device::WaitUntil(std::unique_lock<std::mutex>& lock,
                              const std::function<bool()>& done) {
  ++num_waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return done() || sticky != cudaSuccess; });
  --num_waiting_;
  return Return(sticky);
}

void Device::Poke() {
  ++num_pokes_;
  changed_.notify_all();
}

bool Device::AreAllIdle() const {
  return std::all_of(streams.begin(), streams.end(),
                     [](const auto& stream) { return IsIdle(*stream); });
}

void Device::Forget(const Allocation& allocation) {
  if (!allocation.mapped) used_bytes -= allocation.bytes;
  allocations.erase(reinterpret_cast<uintptr_t>(allocation.base) +
                    allocation.bytes);
}

CUstream_st* Device::ChooseStream() {
  std::vector<CUstream_st*> able;
  for (const auto& stream : streams) {
    if (CanRun(*stream)) able.push_back(stream.get());
  }
  if (able.empty()) return nullptr;
  return able[dice.Below(static_cast<unsigned>(able.size()))];
}

void Device::Work() {
  std::unique_lock lock(mutex);
  while (!quit_) {
    CUstream_st* stream = ChooseStream();
    if (stream == nullptr || (lazy && num_waiting_ == 0 && num_pokes_ == 0)) {
      changed_.wait(lock);
      continue;
    }
    num_pokes_ = std::max(num_pokes_ - 1, 0);
    RunHead(*stream, lock);
    changed_.notify_all();
  }
}

void Device::RunHead(CUstream_st& stream, std::unique_lock<std::mutex>& lock) {
  const Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.run && sticky == cudaSuccess) {
    stream.busy = true;
    ++run_state.run;
    run_state.stamps.resize(run_state.run + size_t{1});
    run_state.stamps[run_state.run] = operation.stamp;
    run_state.clock = operation.clock;
    run_state.allocations = allocations;
    lock.unlock();
    operation.run();
    lock.lock();
    run_state.allocations.clear();
    stream.busy = false;
  }
  if (operation.recorded) {
    operation.recorded->reached =
        std::max(operation.recorded->reached, operation.record);
    operation.recorded->time = std::chrono::steady_clock::now();
  }
  if (!run_state.fault.empty()) {
    sticky = cudaErrorLaunchFailure;
    if (fault.empty()) fault = run_state.fault;
    run_state.fault.clear();
  }
}

void Device::Revive(uint64_t seed, bool be_lazy) {
  std::unique_lock lock(mutex);
  for (const auto& stream : streams) stream->queue.clear();
  changed_.wait(lock, [this] { return AreAllIdle(); });
  for (const auto& stream : streams) {
    stream->capture.reset();
    host_clock.Join(stream->clock);
  }
  for (const auto& event : events) event->reached = event->recorded;
  for (void* memory : released_late) {
    const Allocation* allocation = FindAllocation(allocations, memory);
    if (allocation != nullptr) Forget(*allocation);
  }
  released_late.clear();
  sticky = last = cudaSuccess;
  fault.clear();
  num_calls = failing_call = 0;
  dice.Seed(seed);
  lazy = be_lazy;
  num_pokes_ = 0;
}

void EnqueueLaunch(const LaunchShape& shape, std::function<void()> run) {
  Device& device = Device::Get();
  std::unique_lock<std::mutex> lock;
  if (device.Enter(lock) != cudaSuccess) return;
  CUstream_st* stream = device.StreamOf(shape.stream);
  const dim3 g = shape.grid, b = shape.block;
  const uint64_t num_threads = uint64_t{b.x} * b.y * b.z;
  if (stream == nullptr) {
    device.Return(cudaErrorInvalidResourceHandle);
  } else if (num_threads == 0 || num_threads > kMaxBlockThreads || g.x == 0 ||
             g.y == 0 || g.z == 0 || g.y > 65535 || g.z > 65535 ||
             shape.shared_bytes > kMaxSharedBytes) {
    device.Return(cudaErrorInvalidConfiguration);
  } else {
    device.Give(*stream, std::move(run));
  }
}

}  // namespace thermocline::cuda_on_host
