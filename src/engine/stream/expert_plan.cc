#include "engine/stream/expert_plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/math.h"
#include "engine/stream/expert_blocks.h"
#include "model/firing_shares.h"
#include "neuron/active_sets.h"

namespace thermocline::engine {
namespace {

// What is kept of each expert: where its parts are in the file and in a slot,
// its store, what a policy knows of it.
constexpr uint64_t kExpertTableBytes = 640;

// Calls f(layer_idx, expert_idx) for each.
template <typename Function>
void ForEachExpert(const model::Config& config, Function f) {
  for (size_t i = 0; i < config.layers.size(); ++i) {
    for (size_t e = 0; e < config.layers[i].ffn.num_experts; ++e) f(i, e);
  }
}

// One each in turn, as long as there are any and somebody has not got all.
std::vector<uint32_t> ShareOutExperts(const model::Config& config,
                                      uint64_t num_slots) {
  std::vector<uint32_t> shares(config.layers.size(), 0);
  for (bool any = true; any && num_slots > 0;) {
    any = false;
    for (size_t i = 0; i < shares.size() && num_slots > 0; ++i) {
      if (shares[i] == config.layers[i].ffn.num_experts) continue;
      ++shares[i];
      --num_slots;
      any = true;
    }
  }
  return shares;
}

}  // namespace

uint32_t NumExperts(const model::Config& config) {
  uint32_t count = 0;
  ForEachExpert(config, [&](size_t, size_t) { ++count; });
  return count;
}

std::vector<std::string> ExpertTensors(const gguf::File& file,
                                       const model::Config& config) {
  std::vector<std::string> names;
  ForEachExpert(config, [&](size_t layer_idx, size_t expert_idx) {
    for (ExpertPart& part :
         ExpertPartsOf(file, config, layer_idx, expert_idx)) {
      // Stacks come with each of their experts.
      const size_t recent = std::min<size_t>(names.size(), 3);
      if (std::find(names.end() - static_cast<std::ptrdiff_t>(recent),
                    names.end(), part.tensor) != names.end()) {
        continue;
      }
      names.push_back(std::move(part.tensor));
    }
  });
  return names;
}

LeftWeights LeftExperts(const gguf::File& file, const model::Config& config) {
  // Where a file ends changes what is read, not the slots.
  const std::vector<uint64_t> file_bytes(static_cast<size_t>(file.num_shards()),
                                         std::numeric_limits<uint64_t>::max());
  LeftWeights left = {.unit = StreamUnit::kExperts};
  ForEachExpert(config, [&](size_t layer_idx, size_t expert_idx) {
    const ExpertBlock block = ExpertBlockOf(
        ExpertPartsOf(file, config, layer_idx, expert_idx), file_bytes);
    left.block_bytes = std::max(left.block_bytes, block.layout.num_bytes);
  });
  return left;
}

BlockPlan PlanExpertSlots(const model::Config& config, size_t slot_bytes,
                          uint64_t room) {
  uint64_t most_used = 1;
  for (const model::LayerSpec& layer : config.layers) {
    most_used = std::max<uint64_t>(most_used, layer.ffn.num_experts_used);
  }
  const uint64_t num_slots =
      std::max(room / std::max<size_t>(slot_bytes, 1), 2 * most_used);
  BlockPlan plan = {.slot_bytes = slot_bytes};
  // Twice as many where they are not missed: guesses that were wrong are still
  // on their way.
  plan.pass_slots = static_cast<uint32_t>(
      std::clamp(num_slots / 8, 2 * most_used, 4 * most_used));
  plan.resident = ShareOutExperts(config, num_slots - plan.pass_slots);
  return plan;
}

size_t ApartStride(const model::Config& config) {
  constexpr size_t kFloatsPerLine = 16;
  return RoundUp(config.width, kFloatsPerLine);
}

uint64_t ChoiceBytes(const model::Config& config) {
  if (NumExperts(config) == 0) return 0;
  return (kNumApart + 1) *
         neuron::ActiveSets::WordsPerRow(model::MaxFfnWidth(config)) *
         sizeof(uint64_t);
}

uint64_t ExpertTableBytes(const model::Config& config) {
  return NumExperts(config) * kExpertTableBytes + ApartBytes(config);
}

uint64_t ApartBytes(const model::Config& config) {
  return kNumApart * ApartStride(config) * sizeof(float);
}

Result<ExpertPolicy> MakeExpertPolicy(const model::Model& model,
                                      const StreamOptions& options) {
  const std::vector<model::LayerSpec>& specs = model.config().layers;
  TC_CHECK(options.blocks.resident.size() == specs.size());
  std::vector<std::vector<float>> frequencies;
  std::vector<residency::LayerExtent> layers;
  for (size_t i = 0; i < specs.size(); ++i) {
    const size_t num_experts = specs[i].ffn.num_experts;
    frequencies.push_back(model::ExpertShares(model, i));
    layers.push_back({.num_units = static_cast<uint32_t>(num_experts),
                      .capacity = options.blocks.resident[i],
                      .frequency = frequencies.back()});
  }
  TC_ASSIGN_OR_RETURN(auto policy,
                      options.make_policy(PolicyOf(options.policy), layers));
  for (residency::LayerExtent& layer : layers) layer.frequency = {};
  return ExpertPolicy{std::move(policy), std::move(layers)};
}

}  // namespace thermocline::engine
