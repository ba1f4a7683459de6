#include "engine/stream/expert_stream.h"

namespace thermocline::engine {

std::vector<std::string> ExpertTensors(const gguf::File& /*file*/,
                                       const model::Config& /*config*/) {
  return {};
}

LeftWeights LeftExperts(const gguf::File& /*file*/,
                        const model::Config& /*config*/) {
  return {.unit = StreamUnit::kExperts};
}

BlockPlan PlanExpertSlots(const model::Config& /*config*/, size_t slot_bytes,
                          uint64_t /*room*/) {
  return {.slot_bytes = slot_bytes};
}

Result<std::unique_ptr<ExpertStream>> ExpertStream::Create(
    const model::Model& model, const StreamOptions& /*options*/) {
  return Fail(ErrorCode::kUnsupported, "{}: experts do not stream yet",
              model.file().path());
}

std::string ExpertStream::Describe() const { return ""; }

}  // namespace thermocline::engine
