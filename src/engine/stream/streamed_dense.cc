#include "engine/stream/streamed_dense.h"

#include <utility>

#include "compute/stage_times.h"
#include "engine/ffn/dense_ffn.h"
#include "neuron/record.h"

namespace thermocline::engine {
namespace {

// The same with the parts that are in records where a whole layer is read to.
model::FfnWeights WholeOf(const model::FfnWeights& weights,
                          const StreamedStore& store) {
  const size_t num_neurons = weights.up.shape.num_rows();
  const neuron::RecordViews views =
      neuron::ViewRecords(store.slot_layout(), store.whole_base(), num_neurons);
  model::FfnWeights whole = weights;
  if (views.gate) whole.gate = views.gate;
  whole.up = views.up;
  whole.down_t = views.down_t;
  return whole;
}

class StreamedDense final : public FfnExecutor {
 public:
  StreamedDense(const model::FfnSpec* config, const model::FfnWeights* weights,
                StreamedStore* store, StreamedStore* next,
                const compute::Compute* compute, const FfnScratch* scratch)
      : store_(store),
        next_(next),
        compute_(compute),
        weights_(WholeOf(*weights, *store)),
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
