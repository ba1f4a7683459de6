// CUDA's calls for streams, events and graphs (shadow/cuda_runtime_api.h).
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda_on_host/device.h"

namespace on_host = thermocline::cuda_on_host;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  TC_ENTER(device);
  // Others wait for the null stream and it for them, which is not played here.
  if (flags != cudaStreamNonBlocking) {
    return device.Return(cudaErrorInvalidValue);
  }
  device.streams.push_back(std::make_unique<CUstream_st>());
  *handle = device.streams.back().get();
  (*handle)->index = device.num_streams++;
  return cudaSuccess;
}

// The order comes from the seed; a priority is a wish.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags,
                                         int) {
  return cudaStreamCreateWithFlags(handle, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  TC_ENTER_WITH_STREAM(device, stream, handle);
  if (handle == nullptr) return device.Return(cudaErrorInvalidResourceHandle);
  const cudaError_t error =
      device.WaitUntil(lock, [&] { return on_host::Device::IsIdle(*stream); });
  if (error != cudaSuccess) return error;
  std::erase_if(device.streams,
                [&](const auto& other) { return other.get() == stream; });
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  TC_ENTER_WITH_STREAM(device, stream, handle);
  if (stream->capture) return device.Return(cudaErrorStreamCaptureUnsupported);
  const thermocline::cuda_on_host::Clock clock = stream->clock;
  const cudaError_t error =
      device.WaitUntil(lock, [&] { return on_host::Device::IsIdle(*stream); });
  device.host_clock.Join(clock);
  return error;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  TC_ENTER_WITH_STREAM(device, stream, handle);
  if (stream->capture) return device.Return(cudaErrorStreamCaptureUnsupported);
  if (!on_host::Device::IsIdle(*stream)) {
    device.Poke();
    return cudaErrorNotReady;
  }
  device.host_clock.Join(stream->clock);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event,
                                unsigned) {
  TC_ENTER_WITH_STREAM(device, stream, handle);
  const auto awaited = device.EventOf(event);
  if (!awaited) return device.Return(cudaErrorInvalidResourceHandle);
  if (stream->capture) return device.Return(cudaErrorStreamCaptureUnsupported);
  device.Await(*stream, awaited);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  TC_ENTER(device);
  device.events.push_back(std::make_shared<CUevent_st>());
  device.events.back()->has_time = (flags & cudaEventDisableTiming) == 0;
  *event = device.events.back().get();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  TC_ENTER(device);
  const size_t destroyed = std::erase_if(
      device.events, [&](const auto& other) { return other.get() == event; });
  return device.Return(destroyed != 0 ? cudaSuccess
                                      : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  TC_ENTER_WITH_STREAM(device, stream, handle);
  const auto recorded = device.EventOf(event);
  if (!recorded) return device.Return(cudaErrorInvalidResourceHandle);
  if (stream->capture) return device.Return(cudaErrorStreamCaptureUnsupported);
  device.Record(*stream, recorded);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  TC_ENTER(device);
  const auto event = device.EventOf(handle);
  if (!event) return device.Return(cudaErrorInvalidResourceHandle);
  if (event->reached < event->recorded) {
    device.Poke();
    return cudaErrorNotReady;
  }
  device.host_clock.Join(event->clock);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  TC_ENTER(device);
  const auto event = device.EventOf(handle);
  if (!event) return device.Return(cudaErrorInvalidResourceHandle);
  const uint64_t record = event->recorded;
  const thermocline::cuda_on_host::Clock clock = event->clock;
  const cudaError_t error =
      device.WaitUntil(lock, [&] { return event->reached >= record; });
  device.host_clock.Join(clock);
  return error;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end) {
  TC_ENTER(device);
  const auto first = device.EventOf(begin), last = device.EventOf(end);
  for (const auto& event : {first, last}) {
    if (!event || !event->has_time || event->recorded == 0) {
      return device.Return(cudaErrorInvalidResourceHandle);
    }
    if (event->reached < event->recorded) {
      device.Poke();
      return cudaErrorNotReady;
    }
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(last->time - first->time)
          .count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  TC_ENTER_WITH_STREAM(device, stream, handle);
  if (handle == nullptr || stream->capture) {
    return device.Return(cudaErrorStreamCaptureUnsupported);
  }
  stream->capture = std::make_unique<CUgraph_st>();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  TC_ENTER_WITH_STREAM(device, stream, handle);
  if (!stream->capture) return device.Return(cudaErrorInvalidValue);
  *graph = stream->capture.release();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  TC_ENTER(device);
  delete graph;
  return device.Return(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  TC_ENTER(device);
  if (graph == nullptr) return device.Return(cudaErrorInvalidValue);
  *executable = new CUgraphExec_st{graph->runs};
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  TC_ENTER(device);
  delete executable;
  return device.Return(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  TC_ENTER_WITH_STREAM(device, stream, handle);
  if (executable == nullptr || stream->capture) {
    return device.Return(cudaErrorInvalidValue);
  }
  for (const auto& run : executable->runs) device.Give(*stream, run);
  return cudaSuccess;
}
