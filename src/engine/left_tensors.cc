#include "engine/left_tensors.h"

#include <algorithm>
#include <string_view>

#include "engine/stream/expert_stream.h"
#include "engine/stream/layer_stream.h"
#include "model/prepared_names.h"

namespace thermocline::engine {
namespace {

std::vector<std::string> RecordTensors(const model::Config& config) {
  std::vector<std::string> names;
  for (size_t i = 0; i < config.records.size(); ++i) {
    names.push_back(model::prepared::OfLayer(i, model::prepared::kRecords));
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> TensorsToLeave(const gguf::File& file,
                                                const model::Config& config,
                                                const SessionOptions& options) {
  std::vector<std::string> names;
  if (!options.budget.ram || !options.budget.holds_ram ||
      options.device != nullptr) {
    return names;
  }
  WeightMemory weights;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    weights.num_bytes += tensor.num_bytes;
  }
  TC_ASSIGN_OR_RETURN(const MemoryPlan plan,
                      PlanMemory(config, options, weights));
  if (plan.host.total() <= *options.budget.ram) return names;
  switch (UnitOf(config)) {
    case StreamUnit::kRecords:
      return RecordTensors(config);
    case StreamUnit::kExperts:
      return ExpertTensors(file, config);
    case StreamUnit::kLayers: {
      const uint64_t whole = *options.budget.ram + weights.num_bytes;
      const uint64_t room = whole - std::min(plan.host.total(), whole);
      return LayerTensors(file, config, RoomForSlots(room, config));
    }
  }
  return names;
}

std::optional<LeftWeights> LeftOf(const gguf::File& file,
                                  const model::Config& config,
                                  std::span<const std::string> names) {
  if (names.empty()) return std::nullopt;
  switch (UnitOf(config)) {
    case StreamUnit::kRecords:
      return LeftWeights{.unit = StreamUnit::kRecords};
    case StreamUnit::kExperts:
      return LeftExperts(file, config);
    case StreamUnit::kLayers:
      return LeftLayers(file, config, names);
  }
  return std::nullopt;
}

}  // namespace thermocline::engine
