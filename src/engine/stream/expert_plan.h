// What of a mixture stays in its file, how memory for it is cut, and who is to
// stay there.
#ifndef THERMOCLINE_ENGINE_STREAM_EXPERT_PLAN_H_
#define THERMOCLINE_ENGINE_STREAM_EXPERT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/stream/stream_options.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"
#include "residency/policy.h"

namespace thermocline::engine {

uint32_t NumExperts(const model::Config& config);  // of all layers

// The tensors that experts are in.
std::vector<std::string> ExpertTensors(const gguf::File& file,
                                       const model::Config& config);
LeftWeights LeftExperts(const gguf::File& file, const model::Config& config);

// Slots for what fits in `room`, but at least as many as a generated row and
// the guesses for its next layer need.
BlockPlan PlanExpertSlots(const model::Config& config, size_t slot_bytes,
                          uint64_t room);

// Outputs of experts that can be kept apart at once: rows of D floats.
inline constexpr size_t kNumApart = 64;
size_t ApartStride(const model::Config& config);  // in floats
uint64_t ApartBytes(const model::Config& config);

// What a stream of records keeps of who was chosen of each expert.
uint64_t ChoiceBytes(const model::Config& config);

// What a stream takes besides its slots.
uint64_t ExpertTableBytes(const model::Config& config);

// Over each layer's experts, by how often their neurons fired in the file's
// profile. Errors of residency::MakePolicy.
struct ExpertPolicy {
  std::unique_ptr<residency::Policy> policy;
  std::vector<residency::LayerExtent> layers;  // without frequencies
};
Result<ExpertPolicy> MakeExpertPolicy(const model::Model& model,
                                      const StreamOptions& options);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_EXPERT_PLAN_H_
