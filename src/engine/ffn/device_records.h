// Records of neurons on a device.
#ifndef THERMOCLINE_ENGINE_FFN_DEVICE_RECORDS_H_
#define THERMOCLINE_ENGINE_FFN_DEVICE_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
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

struct ResidentParts {
  const model::FfnSpec* spec = nullptr;
  const model::FfnWeights* weights = nullptr;  // without experts
  float rest_below = 0.0f;                     // as NeuronFfn's
  std::span<const uint32_t> resident;          // neurons, ascending
  DeviceLane* lane = nullptr;                  // outlives it
  device::MemoryKind memory = device::MemoryKind::kDevice;  // of the records
};

// Those of one FFN, or of one expert, that lie there.
class ResidentRecords {
 public:
  // Copies the records over, by way of WeightLoader::kStagingBytes of the
  // lane's pinned memory. kResourceExhausted, errors of the device.
  static Result<ResidentRecords> Make(const ResidentParts& parts);

  const neuron::NeuronSet& resident() const { return resident_; }
  // What computes them: all but a pass's rows and where it works.
  const kernels::SparseFfnArgs& args() const { return args_; }
  // Bytes of records that `num_listed` neurons read, num_open of them whole.
  uint64_t BytesRead(size_t num_listed, size_t num_open) const {
    return num_listed * gate_bytes_ +
           num_open * (records_.record_bytes - gate_bytes_);
  }

 private:
  ResidentRecords(const ResidentParts& parts, const DeviceRecords& records);
  Status Upload(const ResidentParts& parts);
  Status UploadSlots(const ResidentParts& parts, std::byte* to);
  Status UploadVectors(const ResidentParts& parts);

  DeviceRecords records_;
  std::vector<uint64_t> resident_words_;
  neuron::NeuronSet resident_;
  device::Buffer memory_;  // records, then slots and biases
  kernels::SparseFfnArgs args_;
  size_t gate_bytes_ = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_DEVICE_RECORDS_H_
