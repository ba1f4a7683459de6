// Whether a file's predictors were made for its model.
#ifndef THERMOCLINE_ENGINE_FFN_PREDICTOR_CHECK_H_
#define THERMOCLINE_ENGINE_FFN_PREDICTOR_CHECK_H_

#include "base/status.h"
#include "compute/rows.h"
#include "engine/ffn/ffn_layers.h"

namespace thermocline::engine {

// Of what a self-test (model::SelfTest) has, at least this share must come up
// again: machines round differently, and neurons near zero or near a threshold
// come and go; another model's are others.
inline constexpr double kSelfTestShare = 0.9;

// Runs the self-tests of a few layers, if the file has any: the neurons that
// fire for the inputs must be those that fired when the predictor was made, and
// its candidates those that it chose then. kCorrupt: they are not,
// the layer named. kIo: a record could not be read. Only of kFast with
// predictors of the file, trained or free; overwrites the scratch and `rows`.
// Cost: reads the FFNs of kSelfTestLayers layers, once for as many samples as
// are computed together (SparseScratch::group).
inline constexpr size_t kSelfTestLayers = 3;
// Where it computes: as many rows as SparseScratch::group.
struct SelfTestRows {
  compute::Rows normed, out;  // [G, D]
};
Status CheckSelfTests(const FfnParts& parts, FfnMode mode,
                      const SelfTestRows& rows);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_PREDICTOR_CHECK_H_
