// The engine's way to one device: a stream, and memory through which rows go
// there and back.
#ifndef THERMOCLINE_ENGINE_DEVICE_DEVICE_LANE_H_
#define THERMOCLINE_ENGINE_DEVICE_DEVICE_LANE_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "device/device.h"

namespace thermocline::engine {

// What an executor uses of a lane while it runs.
struct LaneNeed {
  uint64_t device_bytes = 0;
  uint64_t pinned_bytes = 0;

  // Executors run one after the other, in the same memory.
  void Cover(const LaneNeed& other) {
    device_bytes = std::max(device_bytes, other.device_bytes);
    pinned_bytes = std::max(pinned_bytes, other.pinned_bytes);
  }
};

// An error of the device with what it was to compute: "layer 3's neurons on the
// device: ...".
inline Status OfDevice(const Status& status, size_t layer_idx,
                       std::string_view what) {
  if (status) return {};
  return Annotate(fmt::format("layer {}'s {} on the device", layer_idx, what),
                  status.error());
}

// Executors of all layers use it, one at a time; what they leave in its memory
// is the next one's to overwrite. The device outlives it.
class DeviceLane {
 public:
  // kResourceExhausted: no memory for `need`. Errors of the device.
  static Result<std::unique_ptr<DeviceLane>> Make(device::Device* device,
                                                  const LaneNeed& need);

  device::Device& device() const { return *device_; }
  device::Stream stream() const { return stream_; }
  device::Event done() const { return done_; }
  device::Event chosen() const { return chosen_; }  // of a pass's neurons
  std::byte* device_memory() const { return device_memory_.data(); }
  std::byte* pinned_memory() const { return pinned_memory_.data(); }

  // Waits until nothing that was enqueued runs any more, unless the device is
  // lost. To be called after any error, before the lane's memory is written:
  // what was enqueued before the error still reads and writes it.
  void Drain() {
    ++num_drains_;
    for (int i = 0; i < 8 && !device_->Synchronize(stream_); ++i) {
    }
  }

  // What was begun before the last one is void.
  uint64_t num_drains() const { return num_drains_; }

 private:
  DeviceLane(device::Device* device, device::Stream stream, device::Event done,
             device::Event chosen, device::Buffer device_memory,
             device::Buffer pinned_memory)
      : device_(device),
        stream_(stream),
        done_(done),
        chosen_(chosen),
        device_memory_(std::move(device_memory)),
        pinned_memory_(std::move(pinned_memory)) {}

  device::Device* device_;
  device::Stream stream_;
  device::Event done_, chosen_;
  uint64_t num_drains_ = 0;
  device::Buffer device_memory_, pinned_memory_;
};

inline Result<std::unique_ptr<DeviceLane>> DeviceLane::Make(
    device::Device* device, const LaneNeed& need) {
  using device::MemoryKind;
  TC_ASSIGN_OR_RETURN(
      device::Buffer on_device,
      device->Allocate(need.device_bytes, MemoryKind::kDevice, "activations"));
  TC_ASSIGN_OR_RETURN(device::Buffer pinned,
                      device->Allocate(need.pinned_bytes, MemoryKind::kPinned,
                                       "activations on their way"));
  TC_ASSIGN_OR_RETURN(const device::Stream stream,
                      device->MakeStream(device::Priority::kNormal));
  TC_ASSIGN_OR_RETURN(const device::Event done, device->MakeEvent());
  TC_ASSIGN_OR_RETURN(const device::Event chosen, device->MakeEvent());
  return std::unique_ptr<DeviceLane>(new DeviceLane(
      device, stream, done, chosen, std::move(on_device), std::move(pinned)));
}

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_DEVICE_LANE_H_
