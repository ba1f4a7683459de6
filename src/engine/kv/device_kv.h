// The pages of keys and values that a device has, beside the host's.
#ifndef THERMOCLINE_ENGINE_KV_DEVICE_KV_H_
#define THERMOCLINE_ENGINE_KV_DEVICE_KV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "engine/attention/attention_executor.h"
#include "engine/device/device_lane.h"
#include "engine/kv/kv_pool.h"
#include "kernels/device_ops.h"
#include "model/config.h"

namespace thermocline::engine {

// Bytes on the device of so many pages, of the layers whose attention is there.
uint64_t DeviceKvBytes(const model::Config& config,
                       std::span<const size_t> layers, uint64_t num_pages);
LaneNeed DeviceKvNeed();

// The host's pages stay complete, also of layers that attend on the device: it
// computes prompts, and goes on alone when the device is lost. Page p of the
// pool is page p here, in F16 whatever the pool's types; the pool knows how
// many of its positions the device has (KvPool::mirrored), and forgets those
// that are about to be written anew. So forks share pages here too.
// Of a pool in 8 bits a position is here as attention computed it, or as the
// host's page has it: after a prompt, and after the page was copied for a fork.
class DeviceKv {
 public:
  // For pools of up to num_pages, of one at a time. The lane outlives it.
  // kResourceExhausted, errors of the device.
  static Result<std::unique_ptr<DeviceKv>> Make(const model::Config& config,
                                                std::span<const size_t> layers,
                                                uint64_t num_pages,
                                                DeviceLane* lane);

  // Before a pass: copies over what its generated rows look back on and the
  // device does not have (a prompt, computed by the host). The runs' pages are
  // reserved, and all of one pool. Errors of the device: nothing of the runs is
  // taken to be there then. Allocates nothing.
  Status Sync(std::span<const SequenceRows> runs);
  // After one that succeeded: the rows' own positions, which attention wrote on
  // both, count.
  void Commit(std::span<const SequenceRows> runs);

  // Where a layer's keys and values lie in the pages; of one of `layers`.
  const kernels::DeviceKv& of(size_t layer_idx) const {
    return places_[layer_idx];
  }

 private:
  DeviceKv(DeviceLane* lane, uint64_t num_pages)
      : lane_(*lane), num_pages_(num_pages) {}
  Status CopyMissing(std::span<const SequenceRows> runs);

  DeviceLane& lane_;
  uint64_t num_pages_;
  std::vector<size_t> layers_;
  std::vector<kernels::DeviceKv> places_;  // [L]
  device::Buffer memory_;
  KvPool* pool_ = nullptr;  // whose pages they are
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_KV_DEVICE_KV_H_
