// Weights of one layer after the other as tensors of a graph: the next ones are
// unpacked while this one is computed with, and those behind them are on their
// way from the drive (PowerInfer-2, Fig. 3a).
#ifndef THERMOCLINE_NPU_LAYER_FEED_H_
#define THERMOCLINE_NPU_LAYER_FEED_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "npu/layer_inputs.h"
#include "npu/static_model.h"
#include "os/memory.h"

namespace thermocline::npu {

// Two places for the tensors of a layer, each as large as the largest needs.
class WeightSlots {
 public:
  static constexpr size_t kCount = 2;

  // inputs: [L], of all layers. kResourceExhausted.
  static Result<WeightSlots> Create(
      std::vector<std::vector<LayerInput>> inputs);

  const std::vector<LayerInput>& inputs(size_t layer_idx) const {
    return inputs_[layer_idx];
  }
  size_t num_layers() const { return inputs_.size(); }
  // Where the layer's tensors go, in the order of its inputs.
  std::span<std::byte* const> places(size_t layer_idx) const {
    return places_[layer_idx];
  }
  uint64_t num_bytes() const { return buffer_.size(); }

 private:
  std::vector<std::vector<LayerInput>> inputs_;
  std::vector<std::vector<std::byte*>> places_;
  os::AlignedBuffer buffer_;
};

struct LayerFeedParts {
  const model::Model* model = nullptr;
  const WeightSlots* slots = nullptr;
  const LayerSource* source = nullptr;  // null: weights are in the model
  WeightForm form = WeightForm::kExact;
  int num_threads = 1;  // that unpack a layer
};

// Of one run through all layers.
// Threads  one caller; threads of its own read and unpack.
class LayerFeed {
 public:
  // All of it outlives this.
  explicit LayerFeed(const LayerFeedParts& parts) : parts_(parts) {}
  // Ends early what has not been asked for.
  ~LayerFeed();
  LayerFeed(const LayerFeed&) = delete;
  LayerFeed& operator=(const LayerFeed&) = delete;

  // Before anything else. kResourceExhausted: no thread; fewer than num_threads
  // unpack more slowly, and are no error.
  Status Start();

  // Waits until the layer lies in its slot; in the order of layers, from the
  // first on. Errors of the source and of UnpackLayer, of this layer.
  Status Await(size_t layer_idx, StaticTimes& times);
  // The layer is computed: its slot may be written to.
  void Leave(size_t layer_idx);

 private:
  void Work();
  // One layer, in its slot, or an error.
  Status Bring(size_t layer_idx);
  Status Unpack(size_t layer_idx, const model::LayerWeights& weights) const;

  LayerFeedParts parts_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  size_t num_ready_ = 0;
  size_t num_left_ = 0;
  std::optional<Error> error_;  // of layer num_ready_
  bool ends_ = false;
  double read_s_ = 0.0;
  double unpack_s_ = 0.0;
  std::thread thread_;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_LAYER_FEED_H_
