// What a generated token takes of a model that is larger than memory.
//
// PowerInfer-2 5.3, equations 2 and 6 to 11. Beyond it: memory has a rate of
// its own, reads have a depth, and time is added up layer by layer and token by
// token, since the slower of two resources is another one in each.
#ifndef THERMOCLINE_PLANNER_STORAGE_COST_H_
#define THERMOCLINE_PLANNER_STORAGE_COST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/storage_machine.h"

namespace thermocline::planner {

// The head is a layer without units.
struct StreamLayer {
  // Read from memory and multiplied whatever the token is, before it is known
  // who is missing: attention, keys and values, predictor, router.
  double fixed_bytes = 0.0;
  // Of a unit that is used, that are multiplied.
  double used_bytes = 0.0;
  // Of all units: what a dense prompt multiplies, and what of it is read.
  double all_bytes = 0.0;
  double left_bytes = 0.0;

  bool operator==(const StreamLayer&) const = default;
};

// Of a token in a layer.
struct LayerUse {
  uint32_t num_used = 0;
  uint32_t num_missed = 0;
  uint32_t num_reads = 0;
  uint64_t read_bytes = 0;
};
using TokenUse = std::vector<LayerUse>;  // [L]

enum class ReadTiming : uint8_t {
  kInLayer,  // who is missing is known behind the layer's predictor or router
  kInOrder,  // it is known always: layers are read one after the other, early
};

struct StreamModel {
  std::vector<StreamLayer> layers;  // [L]
  ReadTiming timing = ReadTiming::kInLayer;
  // kInLayer: pieces of work that are computed one by one, each when all that
  // it misses is there. 0: what is missing keeps nothing else waiting, as in
  // the paper.
  uint32_t num_pieces = 0;
  // kInOrder: layers that may lie in memory besides those that stay.
  uint32_t num_slots = 2;
};

// Who computes and who reads.
struct CoreShare {
  double row_rate = 0.0;  // of all that compute
  double prompt_rate = 0.0;
  double read_share = 1.0;
  uint32_t num_compute = 0;
  uint32_t num_io = 0;  // 0: the same
};

struct StorageCost {
  double seconds = 0.0;  // of a token, the mean
  double p50_seconds = 0.0, p90_seconds = 0.0, p99_seconds = 0.0;
  // Of it, by whom it is waited for: adds up to `seconds`.
  double compute_seconds = 0.0, memory_seconds = 0.0, storage_seconds = 0.0;
  // What each would take alone.
  double compute_alone = 0.0, memory_alone = 0.0, storage_alone = 0.0;
  double num_used = 0.0, num_missed = 0.0, num_reads = 0.0, read_bytes = 0.0;

  double tokens_per_s() const { return seconds > 0.0 ? 1.0 / seconds : 0.0; }
};

// The mean of `tokens`, of which there is at least one, each of as many layers
// as the model. (CHECKed)
StorageCost PredictStorage(const StorageMachine& machine,
                           const StreamModel& model, const CoreShare& cores,
                           const std::vector<TokenUse>& tokens);

// A dense prompt of so many tokens: all units, what is left in the file read in
// sequence under the products of the layer before.
double PromptSeconds(const StorageMachine& machine, const StreamModel& model,
                     const CoreShare& cores, uint64_t num_tokens);

// The shortest prompt that is faster so than token by token; 0: none up to
// 2^20.
uint64_t DensePromptPays(const StorageMachine& machine,
                         const StreamModel& model, const CoreShare& cores,
                         double seconds_per_token);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_STORAGE_COST_H_
