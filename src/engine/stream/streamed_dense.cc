#include "engine/stream/streamed_dense.h"

#include <cmath>
#include <span>

#include "compute/stage_times.h"
#include "engine/ffn/dense_ffn.h"
#include "engine/stream/record_layers.h"

namespace thermocline::engine {
namespace {

class StreamedDense final : public FfnExecutor {
 public:
  explicit StreamedDense(const StreamedDenseParts& parts)
      : parts_(parts),
        weights_(*parts.weights),
        dense_(MakeDenseFfn(parts.config, &weights_, parts.compute,
                            parts.scratch)) {}

  Status Select(const FfnCall& call, SelectAt at) override {
    if (at == SelectAt::kLayerInput) parts_.store->BeginWhole();
    return dense_->Select(call, at);
  }

  Status Run(const FfnCall& call) override {
    StreamedStore& store = *parts_.store;
    store.BeginWhole();
    {
      const compute::ScopedStage stage(*parts_.compute, compute::Stage::kRead);
      TC_RETURN_IF_ERROR(store.FinishWhole(*parts_.compute->pool));
    }
    PlaceWhole(store, weights_);
    if (parts_.next != nullptr) parts_.next->BeginWhole();
    TC_RETURN_IF_ERROR(dense_->Run(call));
    if (parts_.rest_below == kNothingRests) return {};
    store.LearnRows(call.num_rows,
                    [this](size_t row, const neuron::NeuronSet& used) {
                      AddRow(row, used);
                    });
    return {};
  }

  compute::Rows gate() const override { return dense_->gate(); }

 private:
  // From the hidden vectors that the dense FFN has left. Thresholds are of
  // opened gates, which take their place.
  void AddRow(size_t row, const neuron::NeuronSet& used) const {
    const model::FfnSpec& config = *parts_.config;
    const std::span<float> hidden = parts_.scratch->up.span(row);
    if (parts_.rest_below > 0.0f && config.gated) {
      parts_.compute->kernels->activate(
          ActivationOfGate(config.activation), config.threshold, nullptr,
          parts_.scratch->gate.row(row), hidden.size(), hidden.data());
    }
    for (size_t i = 0; i < hidden.size(); ++i) {
      if (hidden[i] != 0.0f && std::abs(hidden[i]) >= parts_.rest_below) {
        used.Add(i);
      }
    }
  }

  StreamedDenseParts parts_;
  model::FfnWeights weights_;
  std::unique_ptr<FfnExecutor> dense_;
};

}  // namespace

std::unique_ptr<FfnExecutor> MakeStreamedDense(
    const StreamedDenseParts& parts) {
  return std::make_unique<StreamedDense>(parts);
}

}  // namespace thermocline::engine
