#include "engine/stream/record_layers.h"

#include "base/check.h"
#include "neuron/record.h"

namespace thermocline::engine {

void PlaceWhole(const StreamedStore& store, model::FfnMatrices& matrices) {
  const size_t num_neurons = matrices.up.shape.num_rows();
  const neuron::RecordViews views =
      neuron::ViewRecords(store.slot_layout(), store.whole_base(), num_neurons);
  if (views.gate) matrices.gate = views.gate;
  matrices.up = views.up;
  matrices.down_t = views.down_t;
}

Result<const model::LayerWeights*> RecordLayers::Await(size_t layer_idx,
                                                       os::ThreadPool& pool) {
  StreamedStore* store = stream_.store(layer_idx);
  TC_CHECK(store != nullptr);
  store->BeginWhole();
  TC_RETURN_IF_ERROR(store->FinishWhole(pool));
  placed_ = model_.weights().layers[layer_idx];
  PlaceWhole(*store, placed_.ffn);
  StreamedStore* next = stream_.store(layer_idx + 1);
  if (next != nullptr) next->BeginWhole();
  return &placed_;
}

void RecordLayers::End() {
  for (size_t i = 0; i < model_.weights().layers.size(); ++i) {
    stream_.store(i)->EndPass();
  }
}

}  // namespace thermocline::engine
