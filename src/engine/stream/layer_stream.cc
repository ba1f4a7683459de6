#include "engine/stream/layer_stream.h"

namespace thermocline::engine {

std::vector<std::string> LayerTensors(const gguf::File& /*file*/,
                                      const model::Config& /*config*/,
                                      uint64_t /*room*/) {
  return {};
}

LeftWeights LeftLayers(const gguf::File& /*file*/,
                       const model::Config& /*config*/,
                       std::span<const std::string> /*names*/) {
  return {.unit = StreamUnit::kLayers};
}

BlockPlan PlanLayerSlots(const LeftWeights& left, uint64_t /*room*/) {
  return {.slot_bytes = left.block_bytes};
}

Result<std::unique_ptr<LayerStream>> LayerStream::Create(
    const model::Model& model, const StreamOptions& /*options*/) {
  return Fail(ErrorCode::kUnsupported, "{}: layers do not stream yet",
              model.file().path());
}

Status LayerStream::Await(size_t /*layer_idx*/) { return {}; }
void LayerStream::Leave(size_t /*layer_idx*/) {}
void LayerStream::EndPass() {}
std::string LayerStream::Describe() const { return ""; }

}  // namespace thermocline::engine
