// A placement as it grows, part by part, and what it takes so far.
#ifndef THERMOCLINE_ENGINE_DEVICE_PLACEMENT_SUM_H_
#define THERMOCLINE_ENGINE_DEVICE_PLACEMENT_SUM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/device/device_lane.h"
#include "engine/device/placement.h"
#include "engine/device/placement_parts.h"
#include "model/config.h"

namespace thermocline::engine {

// Each Add takes a part that `parts` has and that is not there yet; false: it
// does not fit the budget, and nothing changes.
class PlacementSum {
 public:
  // All but the result of Take outlive it.
  PlacementSum(const model::Config& config, const DeviceParts& parts,
               uint64_t num_kv_pages, uint64_t budget);

  // What is added of this layer from now on has its weights in pinned memory.
  void PutOverLink(size_t layer_idx) {
    placement_.layers[layer_idx].over_link = true;
  }
  bool AddAttention(size_t layer_idx);
  bool AddPredictor(size_t layer_idx);
  // All of it, in the form that it has.
  bool AddFfn(size_t layer_idx);
  bool AddNeuron(size_t layer_idx, uint32_t neuron);
  bool AddExpert(size_t layer_idx, uint32_t expert);
  bool AddHead(bool over_link = false);

  uint64_t device_bytes() const { return bytes_.total(); }
  Placement Take();

 private:
  struct Bytes {
    uint64_t weights = 0;
    uint64_t records = 0;
    uint64_t kv = 0;
    uint64_t linked = 0;  // the host's, no part of the total
    LaneNeed need;

    uint64_t total() const;
  };

  bool Accept(const Bytes& bytes);
  // Weights of a buffer of their own.
  Bytes WithWeights(const PartCost& part, bool over_link) const;
  bool AddRecords(size_t layer_idx, uint64_t num_bytes);
  bool AddWhole(const PartCost& part, bool over_link);

  const model::Config& config_;
  const DeviceParts& parts_;
  uint64_t num_kv_pages_;
  uint64_t budget_;
  Bytes bytes_;
  std::vector<uint64_t> layer_records_;  // [L] bytes of records, not rounded
  std::vector<size_t> attending_;        // layers whose attention is there
  Placement placement_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_PLACEMENT_SUM_H_
