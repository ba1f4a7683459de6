#include "engine/forward/opened_rows.h"

#include <algorithm>

#include "base/check.h"
#include "engine/ffn/ffn_layers.h"
#include "engine/stream/streamed_store.h"
#include "tensor/float16.h"

namespace thermocline::engine {
namespace {

constexpr size_t kMostRows = StreamedStore::kLearnedRows;
constexpr uint16_t kMagnitude = 0x7fff;  // without the sign

}  // namespace

OpenedRows::OpenedRows(const model::Config& config, FfnMode generated) {
  TC_CHECK(generated != FfnMode::kDense);
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const size_t num_neurons = config.layers[i].ffn.width;
    const uint16_t rest_below = F32ToF16(RestBelow(config, i, generated));
    layers_.push_back({.num_neurons = num_neurons,
                       .least = std::max<uint16_t>(rest_below & kMagnitude, 1),
                       .words = std::vector<uint64_t>(
                           kMostRows * neuron::WordsOf(num_neurons))});
  }
}

uint64_t OpenedRows::NumBytes(const model::Config& config) {
  uint64_t num_bytes = 0;
  for (const model::LayerSpec& layer : config.layers) {
    num_bytes +=
        kMostRows * neuron::WordsOf(layer.ffn.width) * sizeof(uint64_t);
  }
  return num_bytes;
}

void OpenedRows::Start(int64_t first, int64_t num_rows) {
  num_kept_ = std::min(static_cast<size_t>(num_rows), kMostRows);
  first_kept_ = first + num_rows - static_cast<int64_t>(num_kept_);
}

// Of positive numbers in F16 the larger one has the larger bits.
void OpenedRows::Add(size_t layer_idx, int64_t first, int64_t count,
                     const uint16_t* opened) {
  const Layer& layer = layers_[layer_idx];
  for (int64_t i = std::max<int64_t>(first_kept_ - first, 0); i < count; ++i) {
    const neuron::NeuronSet used =
        layer.row(static_cast<size_t>(first + i - first_kept_));
    const uint16_t* row = opened + static_cast<size_t>(i) * layer.num_neurons;
    used.Clear();
    for (size_t n = 0; n < layer.num_neurons; ++n) {
      if ((row[n] & kMagnitude) >= layer.least) used.Add(n);
    }
  }
}

void OpenedRows::Teach(RecordStream& stream) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    stream.store(i)->LearnRows(
        num_kept_, [&layer](size_t row, const neuron::NeuronSet& used) {
          used.AddAllOf(layer.row(row));
        });
  }
}

}  // namespace thermocline::engine
