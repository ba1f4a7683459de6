// The neurons of one sparse FFN that lie on a device, and how they are computed
// there while the host computes the others.
#ifndef THERMOCLINE_ENGINE_FFN_DEVICE_FFN_H_
#define THERMOCLINE_ENGINE_FFN_DEVICE_FFN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "compute/rows.h"
#include "device/device.h"
#include "engine/device/device_lane.h"
#include "kernels/device_ops.h"
#include "model/config.h"
#include "model/model.h"
#include "neuron/neuron_set.h"

namespace thermocline::engine {

// How a layer's records lie on a device: gate, up and down rows as its
// RowLayout packs them, one behind the other.
struct DeviceRecords {
  size_t record_bytes = 0;
  size_t up_offset = 0;  // 0 without a gate
  size_t down_offset = 0;
  uint64_t other_bytes = 0;  // slots and biases, however many are resident

  uint64_t BytesFor(size_t num_resident) const {
    return other_bytes + num_resident * record_bytes;
  }
};

// kUnsupported: no rows that a neuron could be made of (down is not transposed:
// the file is not prepared), or a type that the device cannot compute, named.
Result<DeviceRecords> PlanDeviceRecords(const model::FfnSpec& spec,
                                        const model::FfnWeights& weights,
                                        const device::RowLayout& layout);

// What of its lane a layer's FFN uses.
LaneNeed DeviceFfnNeed(const model::FfnSpec& spec, uint64_t width);

struct DeviceFfnParts {
  const model::FfnSpec* spec = nullptr;
  const model::FfnWeights* weights = nullptr;  // without experts
  float rest_below = 0.0f;                     // as NeuronFfn's
  std::span<const uint32_t> resident;          // neurons, ascending
  DeviceLane* lane = nullptr;                  // outlives it
};

// A pass over rows: SetRow for each, Begin, (the host computes what is
// missing,) Finish. PowerInfer 5.3: both compute at the same time, one partial
// sum crosses.
class DeviceFfn {
 public:
  // Copies the records over. kResourceExhausted, errors of the device.
  static Result<std::unique_ptr<DeviceFfn>> Make(const DeviceFfnParts& parts);

  const neuron::NeuronSet& resident() const { return resident_; }

  // Row t of the pass, t < kernels::kDeviceRows. wanted: null for all neurons.
  void SetRow(size_t t, const float* x, const neuron::NeuronSet* wanted);
  // Sends the rows and enqueues what is to be computed of them, if anything is.
  Status Begin(size_t num_rows);
  // Waits; adds the sums to out[t]. kCorrupt is the caller's to find: what is
  // not finite shows in `out`.
  Status Finish(const compute::Rows& out);
  // Of row t of the last pass: the resident ones of those wanted, and of them
  // those with h != 0.
  void AddWanted(size_t t, const neuron::NeuronSet& set) const;
  void AddFired(size_t t, const neuron::NeuronSet& set) const;
  size_t num_fired(size_t t) const;
  size_t num_wanted(size_t t) const { return num_wanted_[t]; }
  // Bytes of records that `num_listed` neurons read, num_open of them whole.
  uint64_t BytesRead(size_t num_listed, size_t num_open) const;

 private:
  // The same arrays in the lane's pinned and device memory.
  struct Staged {
    float* x = nullptr;         // [T, D]
    uint32_t* sets = nullptr;   // [T, words]
    float* out = nullptr;       // [T, D]
    uint32_t* fired = nullptr;  // [T, words]
    uint32_t* num_listed = nullptr;
    std::byte* scratch = nullptr;  // the device's alone
  };
  struct Lengths {
    uint64_t in = 0;       // bytes from x to the end of sets
    uint64_t out_end = 0;  // and on to the end of num_listed
    uint64_t all = 0;
  };
  friend LaneNeed DeviceFfnNeed(const model::FfnSpec& spec, uint64_t width);

  DeviceFfn(const DeviceFfnParts& parts, const DeviceRecords& records);
  static Staged Carve(std::byte* base, const model::FfnSpec& spec,
                      uint64_t width, size_t num_slots, Lengths& lengths);
  Status Upload(const DeviceFfnParts& parts);
  Status UploadRecords(const DeviceFfnParts& parts);
  Status UploadVectors(const DeviceFfnParts& parts);

  DeviceLane& lane_;
  DeviceRecords records_;
  std::vector<uint64_t> resident_words_;
  neuron::NeuronSet resident_;
  device::Buffer memory_;  // records, then slots and biases
  kernels::SparseFfnArgs args_;
  Staged host_, device_;
  Lengths lengths_;
  size_t gate_bytes_ = 0;
  std::vector<size_t> num_wanted_;
  bool is_idle_ = true;  // in the pass at hand: no resident neuron is wanted
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_DEVICE_FFN_H_
