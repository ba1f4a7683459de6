// Those experts of a mixture that lie on a device.
#ifndef THERMOCLINE_ENGINE_FFN_DEVICE_EXPERTS_H_
#define THERMOCLINE_ENGINE_FFN_DEVICE_EXPERTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/math.h"
#include "base/status.h"
#include "compute/rows.h"
#include "device/device.h"
#include "engine/device/device_lane.h"
#include "engine/ffn/device_matrices.h"
#include "engine/ffn/device_records.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/ffn/ffn_observer.h"
#include "model/config.h"
#include "model/model.h"
#include "neuron/neuron_set.h"

namespace thermocline::engine {

// Of one expert, in one piece: experts are on the device whole or not at all,
// as records where their down matrix is transposed, else as matrices.
// kUnsupported: a type, named; matrices in a mode that leaves out neurons which
// fire, since all of them are multiplied.
Result<uint64_t> DeviceExpertBytes(const model::FfnSpec& spec,
                                   const model::FfnMatrices& expert,
                                   FfnMode mode,
                                   const device::RowLayout& layout);
// For kernels::kDeviceRows rows that choose as many experts as they may.
LaneNeed DeviceExpertsNeed(const model::FfnSpec& spec, uint64_t width);

struct DeviceExpertsParts {
  const model::FfnSpec* spec = nullptr;
  const model::FfnWeights* weights = nullptr;  // with experts
  FfnMode mode = FfnMode::kDense;              // of generated rows
  float rest_below = 0.0f;                     // as NeuronFfn's
  std::span<const uint32_t> resident;          // experts, ascending
  DeviceLane* lane = nullptr;                  // outlives it
  device::MemoryKind memory = device::MemoryKind::kDevice;  // of their weights
};

// A pass over at most kDeviceRows rows: Start; AddExpert for each resident one
// that was chosen, with AddRow for each row that did; Begin, which sends and
// enqueues it all; then the host computes the other experts, whose outputs may
// lie beside (AddOther); Finish. D floats a choice come back, apart from each
// other: who adds them up decides their order.
class DeviceExperts {
 public:
  // Copies the experts over. kResourceExhausted, errors of the device.
  static Result<std::unique_ptr<DeviceExperts>> Make(
      const DeviceExpertsParts& parts);

  bool Has(size_t expert_idx) const { return experts_[expert_idx].is_there(); }
  // Whether raw() can be had: not of records.
  bool has_raw() const { return has_raw_; }

  void Start() { groups_.clear(); }
  void AddExpert(size_t expert_idx);
  // To the expert that was added last. wanted: null for all neurons.
  void AddRow(const float* x, const neuron::NeuronSet* wanted);
  // keeps_hidden: Describe and raw() will be asked.
  Status Begin(bool keeps_hidden);
  // Room for what the host computes of an expert, for so many rows.
  compute::Rows AddOther(size_t expert_idx, size_t num_rows);
  Status Finish();

  // Of an expert of the last pass; its rows in the order in which they came.
  compute::Rows out(size_t expert_idx) const;
  // What the activation is applied to; has_raw().
  compute::Rows raw(size_t expert_idx) const;
  // Whom row i computed, and who of them fired; of F neurons.
  void Describe(size_t expert_idx, size_t i, const neuron::NeuronSet& named,
                const neuron::NeuronSet& fired) const;
  // Adds what its rows computed, and what they read together.
  void Count(size_t expert_idx, SparseTotals& totals) const;

 private:
  struct Expert {
    std::optional<ResidentRecords> records;
    std::unique_ptr<DeviceMatrices> matrices;

    bool is_there() const { return records || matrices != nullptr; }
  };
  // Rows [first, first + count) of a pass.
  struct Group {
    size_t expert_idx = 0;
    size_t first = 0;
    size_t count = 0;
  };
  // The same arrays in the lane's pinned and device memory, where raw and
  // hidden are of one group at a time. C choices of a pass.
  struct Staged {
    float* x = nullptr;            // [C, D]
    uint32_t* sets = nullptr;      // [C, words]
    float* out = nullptr;          // [C, D]
    uint32_t* fired = nullptr;     // [C, words]
    float* raw = nullptr;          // [C or kDeviceRows, F]
    float* hidden = nullptr;       // likewise
    std::byte* scratch = nullptr;  // the device's alone
    uint64_t num_bytes = 0;
  };
  // Of the sets of a group's rows.
  struct Members {
    size_t of_rows = 0;   // of each
    size_t together = 0;  // of their union
  };
  friend LaneNeed DeviceExpertsNeed(const model::FfnSpec& spec, uint64_t width);

  explicit DeviceExperts(const DeviceExpertsParts& parts);
  static Staged Carve(std::byte* base, const model::FfnSpec& spec,
                      uint64_t width, bool is_pinned);
  Status Load(const DeviceExpertsParts& parts, size_t expert_idx);
  Status Enqueue();
  Status EnqueueRecords(size_t group_idx, const ResidentRecords& records);
  Status EnqueueMatrices(size_t group_idx, const DeviceMatrices& matrices);
  Status Copy(void* to, const void* from, size_t num_elems) const;

  Members MembersOf(const uint32_t* sets, size_t expert_idx) const;

  // Where a group's elements begin in an array of `width` elements a row: a
  // multiple of 16 bytes.
  static size_t PlaceOf(size_t group_idx, size_t first, size_t width) {
    return RoundUp(first * width, size_t{4}) + 4 * group_idx;
  }
  size_t BeginOf(size_t group_idx, size_t width) const {
    return PlaceOf(group_idx, groups_[group_idx].first, width);
  }
  // Behind the last group's.
  size_t End(size_t width) const {
    return BeginOf(groups_.size() - 1, width) + groups_.back().count * width;
  }
  const Group& GroupOf(size_t expert_idx) const {
    return groups_[group_of_[expert_idx]];
  }
  // Row i's words in an array of sets.
  const uint32_t* WordsOf(const uint32_t* sets, size_t expert_idx,
                          size_t i) const {
    return sets + BeginOf(group_of_[expert_idx], num_words_) + i * num_words_;
  }

  DeviceLane& lane_;
  size_t width_ = 0;
  size_t num_neurons_ = 0;
  size_t num_words_ = 0;
  std::vector<Expert> experts_;  // [E]
  bool has_raw_ = true;
  Staged host_, device_;
  // Of the pass at hand.
  std::vector<Group> groups_;
  std::vector<size_t> group_of_;  // [E]
  bool is_begun_ = false;         // something is enqueued
  bool keeps_hidden_ = false;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_DEVICE_EXPERTS_H_
