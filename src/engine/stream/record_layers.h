// Whole layers of a model whose records stay in the file, for who computes with
// matrices.
#ifndef THERMOCLINE_ENGINE_STREAM_RECORD_LAYERS_H_
#define THERMOCLINE_ENGINE_STREAM_RECORD_LAYERS_H_

#include <cstddef>

#include "base/status.h"
#include "engine/stream/record_stream.h"
#include "engine/stream/streamed_store.h"
#include "model/model.h"
#include "os/thread_pool.h"

namespace thermocline::engine {

// Points what is in records to where a whole layer or expert was read to.
void PlaceWhole(const StreamedStore& store, model::FfnMatrices& matrices);

// One after the other, the next on its way while one is used (PowerInfer-2
// 4.1.1). Of models without experts.
// Threads  one caller at a time, and no run of the stores from Await to End.
class RecordLayers {
 public:
  // Both outlive it; the stores are made before Await.
  RecordLayers(const model::Model* model, RecordStream* stream)
      : model_(*model), stream_(*stream) {}

  // In the order of layers: the layer's weights, of which the records' matrices
  // lie where they were read to, until the next Await or End. kIo, naming file
  // and layer: they could not be read; the next pass tries again.
  Result<const model::LayerWeights*> Await(size_t layer_idx,
                                           os::ThreadPool& pool);
  // The pass is over, or has failed: waits for what nobody will await.
  void End();

 private:
  const model::Model& model_;
  RecordStream& stream_;
  model::LayerWeights placed_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_RECORD_LAYERS_H_
