// The candidates of predictors for the tokens of a self-test.
#ifndef THERMOCLINE_TRAINING_CANDIDATES_H_
#define THERMOCLINE_TRAINING_CANDIDATES_H_

#include "pack/parts.h"
#include "training/gemm.h"
#include "training/low_rank.h"

namespace thermocline::training {

// Fills parts.self_test's candidates, of the layers that have a trained
// predictor, and `free`, of those that have a training-free one, as the engine
// will compute them but for the rounding of sums: a score near 0 may fall on
// either side. Of a mixture, those of the
// experts in which something fired. Requires a self-test [L].
void AddCandidates(const Gemm& gemm, const Neurons& neurons,
                   pack::PreparedParts& parts);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_CANDIDATES_H_
