// Every byte that running a model takes, tier by tier, against a budget: made
// and checked before anything is allocated.
#ifndef THERMOCLINE_ENGINE_MEMORY_PLAN_H_
#define THERMOCLINE_ENGINE_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace thermocline::engine {

// How much a user lets the engine take; absent: what there is.
struct Budget {
  std::optional<uint64_t> ram;   // bytes
  std::optional<uint64_t> vram;  // bytes, for what lies on devices
  // false: `ram` is told, and nothing refused (StorageMode::kMmap).
  bool holds_ram = true;
};

struct TierBytes {
  uint64_t weights = 0;  // as the file has them
  uint64_t linked = 0;   // copies of weights that a device reads over its link
  uint64_t bundles = 0;  // neurons laid out as records when the model opened
  uint64_t slots = 0;    // of records, where they may come and go
  uint64_t kv = 0;       // pages of keys and values
  uint64_t scratch = 0;  // activations of one batch, per-thread scratch
  uint64_t graphs = 0;   // tensors of static graphs that compute prompts
  uint64_t signs = 0;    // of weights, for PredictorChoice::kTrainingFree

  // Saturates.
  uint64_t total() const;
};

struct MemoryPlan {
  TierBytes host;
  TierBytes device;
  // Weights are read into memory or locked, not mapped.
  bool holds_weights = false;

  // What the system cannot take back: all of the host's but mapped weights.
  uint64_t anonymous() const;
};

// "weights 3.50 GiB mapped, KV cache 512.00 MiB, activations 10.00 MiB": of a
// tier what it has.
std::string Describe(const MemoryPlan& plan);

// kResourceExhausted, with the numbers and what would be enough:
//   with budget.ram, all of the host's tier is more, its mapped weights too
//   without, what is anonymous is more than `ram_bytes` of the machine
// and likewise with budget.vram and the device's tier.
Status CheckMemory(const MemoryPlan& plan, const Budget& budget,
                   uint64_t ram_bytes);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_MEMORY_PLAN_H_
