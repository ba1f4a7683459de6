#include "engine/ffn/record_store.h"

#include <utility>

namespace thermocline::engine {
std::unique_ptr<RecordStore> MakeMappedStore(
    const model::FfnMatrices& matrices) {
  return std::make_unique<MappedStore>(matrices);
}

RecordStores::RecordStores(const model::Weights& weights,
                           const MakeRecordStore& make)
    : are_mapped_(!make) {
  layers_.reserve(weights.layers.size());
  for (size_t layer_idx = 0; layer_idx < weights.layers.size(); ++layer_idx) {
    std::vector<std::unique_ptr<RecordStore>>& stores = layers_.emplace_back();
    const auto add = [&](const model::FfnMatrices& matrices) {
      stores.push_back(make ? make(layer_idx, stores.size(), matrices)
                            : MakeMappedStore(matrices));
    };
    const model::FfnWeights& ffn = weights.layers[layer_idx].ffn;
    if (ffn.experts.empty()) add(ffn);
    for (const model::FfnMatrices& expert : ffn.experts) add(expert);
  }
}

void RecordStores::EndPass() const {
  if (are_mapped_) return;
  for (const auto& stores : layers_) {
    for (const std::unique_ptr<RecordStore>& store : stores) store->EndPass();
  }
}

}  // namespace thermocline::engine
