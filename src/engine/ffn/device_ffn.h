// The neurons of one sparse FFN that lie on a device, and how they are computed
// there while the host computes the others.
#ifndef THERMOCLINE_ENGINE_FFN_DEVICE_FFN_H_
#define THERMOCLINE_ENGINE_FFN_DEVICE_FFN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "compute/rows.h"
#include "device/device.h"
#include "engine/device/device_lane.h"
#include "engine/ffn/device_records.h"
#include "kernels/device_ops.h"
#include "model/config.h"
#include "model/model.h"
#include "neuron/neuron_set.h"

namespace thermocline::engine {

// What of its lane a layer's FFN uses.
LaneNeed DeviceFfnNeed(const model::FfnSpec& spec, uint64_t width);

// A pass over rows: Start, SetRow for each, Begin, (the host computes what is
// missing,) Finish. PowerInfer 5.3: both compute at the same time, one partial
// sum crosses.
class DeviceFfn {
 public:
  // Copies the records over. kResourceExhausted, errors of the device.
  static Result<std::unique_ptr<DeviceFfn>> Make(const ResidentParts& parts);

  const neuron::NeuronSet& resident() const { return records_.resident(); }

  // A pass of so many rows begins, at most kernels::kDeviceRows.
  void Start(size_t num_rows);
  // Each row t of it, once. wanted: null for all neurons.
  void SetRow(size_t t, const float* x, const neuron::NeuronSet* wanted);
  // Sends the rows and enqueues what is to be computed of them, if anything is.
  Status Begin();
  // Start and Begin of rows whose x and sets are in the device's memory
  // already, where Start has them: at the beginning of the lane's, in their
  // order, and x in the pinned memory likewise. The next pass is then of these
  // rows, and what it does till Finish costs nothing more, unless a row wants
  // all neurons.
  Status BeginChosen(size_t num_rows);
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
  uint64_t BytesRead(size_t num_listed, size_t num_open) const {
    return records_.BytesRead(num_listed, num_open);
  }

 private:
  void Lay(size_t num_rows);
  Status Enqueue();
  bool has_begun() const { return begun_at_ == lane_.num_drains(); }
  // The same arrays in the lane's pinned and device memory.
  struct Staged {
    float* x = nullptr;         // [T, D]
    uint32_t* sets = nullptr;   // [T, words]
    float* out = nullptr;       // [T, D]
    uint32_t* fired = nullptr;  // [T, words]
    uint32_t* num_listed = nullptr;
    std::byte* scratch = nullptr;  // the device's alone

    uint64_t bytes_in = 0;   // from x to the end of sets
    uint64_t bytes_out = 0;  // and on to the end of num_listed
    uint64_t num_bytes = 0;  // of all
  };
  friend LaneNeed DeviceFfnNeed(const model::FfnSpec& spec, uint64_t width);

  DeviceFfn(const ResidentParts& parts, ResidentRecords records);
  static Staged Carve(std::byte* base, uint64_t width, size_t num_neurons,
                      size_t num_slots, size_t num_rows);

  DeviceLane& lane_;
  ResidentRecords records_;
  kernels::SparseFfnArgs args_;
  Staged host_, device_;  // of the pass at hand
  std::vector<size_t> num_wanted_;
  // lane's num_drains() when BeginChosen was called for the pass at hand.
  std::optional<uint64_t> begun_at_;
  bool is_idle_ = true;  // in the pass at hand: no resident neuron is wanted
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_DEVICE_FFN_H_
