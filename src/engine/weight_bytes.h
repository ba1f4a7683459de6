// Bytes that computing a token reads: what the law of bytes counts.
#ifndef THERMOCLINE_ENGINE_WEIGHT_BYTES_H_
#define THERMOCLINE_ENGINE_WEIGHT_BYTES_H_

#include <cstdint>

#include "engine/ffn/ffn_mode.h"
#include "model/model.h"

namespace thermocline::engine {

// Bytes of weights that num_tokens tokens computed together read when every
// neuron is computed: all matrices but those of experts, of which as many as
// they can choose, at most, and the embedding tables, of which a row each (all
// of it when it is the head too). kFast: with the predictors' own, trained or
// training-free as Engine::predictor() says; files that bring none of the
// latter have the signs that a session makes. That makes it an upper bound; how
// much less the FFN reads depends on what fires.
uint64_t WeightBytesPerBatch(const model::Model& model, FfnMode ffn,
                             PredictorChoice predictor, uint64_t num_tokens);
inline uint64_t WeightBytesPerToken(
    const model::Model& model, FfnMode ffn = FfnMode::kDense,
    PredictorChoice predictor = PredictorChoice::kNone) {
  return WeightBytesPerBatch(model, ffn, predictor, 1);
}

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_WEIGHT_BYTES_H_
