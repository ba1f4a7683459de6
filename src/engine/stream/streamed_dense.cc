#include "engine/stream/streamed_dense.h"

#include <utility>

#include "compute/stage_times.h"
#include "engine/ffn/dense_ffn.h"
#include "neuron/record.h"

namespace thermocline::engine {
namespace {

// Points what is in records to where a whole layer or expert was read to.
void PlaceWhole(const StreamedStore& store, model::FfnWeights& weights) {
  const size_t num_neurons = weights.up.shape.num_rows();
  const neuron::RecordViews views =
      neuron::ViewRecords(store.slot_layout(), store.whole_base(), num_neurons);
  if (views.gate) weights.gate = views.gate;
  weights.up = views.up;
  weights.down_t = views.down_t;
}

class StreamedDense final : public FfnExecutor {
 public:
  StreamedDense(const model::FfnSpec* config, const model::FfnWeights* weights,
                StreamedStore* store, StreamedStore* next,
                const compute::Compute* compute, const FfnScratch* scratch)
      : store_(store),
        next_(next),
        compute_(compute),
        weights_(*weights),
        dense_(MakeDenseFfn(config, &weights_, compute, scratch)) {}

  Status Select(const FfnCall& call, SelectAt at) override {
    if (at == SelectAt::kLayerInput) store_->BeginWhole();
    return dense_->Select(call, at);
  }

  Status Run(const FfnCall& call) override {
    store_->BeginWhole();
    {
      const compute::ScopedStage stage(*compute_, compute::Stage::kRead);
      TC_RETURN_IF_ERROR(store_->FinishWhole(*compute_->pool));
    }
    PlaceWhole(*store_, weights_);
    if (next_ != nullptr) next_->BeginWhole();
    return dense_->Run(call);
  }

  compute::Rows gate() const override { return dense_->gate(); }

 private:
  StreamedStore* store_;
  StreamedStore* next_;
  const compute::Compute* compute_;
  model::FfnWeights weights_;
  std::unique_ptr<FfnExecutor> dense_;
};

}  // namespace

std::unique_ptr<FfnExecutor> MakeStreamedDense(const model::FfnSpec* config,
                                               const model::FfnWeights* weights,
                                               StreamedStore* store,
                                               StreamedStore* next,
                                               const compute::Compute* compute,
                                               const FfnScratch* scratch) {
  return std::make_unique<StreamedDense>(config, weights, store, next, compute,
                                         scratch);
}

}  // namespace thermocline::engine
