// The forward pass written down once more, plainly and in double precision.
#ifndef THERMOCLINE_ENGINE_TESTING_REFERENCE_H_
#define THERMOCLINE_ENGINE_TESTING_REFERENCE_H_

#include <span>
#include <vector>

#include "model/model.h"
#include "text/vocab.h"

namespace thermocline::engine::testing {

// Logits [T, V] of all positions, from the decoded weights; shares no code
// with the engine, its kernels or its angles.
std::vector<double> ReferenceLogits(const model::Model& model,
                                    std::span<const text::TokenId> tokens);

// The angle of pair `pair` at `position`, and YaRN's magnitude.
double ReferenceAngle(const model::RopeConfig& rope, double freq_factor,
                      int pair, double position);
double ReferenceMagnitude(const model::RopeConfig& rope);

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_REFERENCE_H_
