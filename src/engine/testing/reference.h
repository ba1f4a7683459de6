// The forward pass written down once more, plainly and in double precision.
#ifndef THERMOCLINE_ENGINE_TESTING_REFERENCE_H_
#define THERMOCLINE_ENGINE_TESTING_REFERENCE_H_

#include <functional>
#include <span>
#include <vector>

#include "model/model.h"
#include "text/vocab.h"

namespace thermocline::engine::testing {

// Known wrong ways to run a model: a comparison is worth something when it
// notices them. Others are made by changing a copy of Config or Weights.
enum class Mistake {
  kNone,
  kErfGelu,            // the exact GELU in the place of the tanh form
  kRawExpertWeights,   // shares of the chosen experts, not made to sum to 1
  kLastExpertOfTies,   // of equal shares the highest index
  kSequentialBlock,    // the FFN behind the attention in a parallel block
  kFfnNormOfAttention  // the FFN reads what attention reads
};

// Which neurons of a layer count for a token, given the stream that the FFN's
// norm reads and what it makes of it; empty: all.
using NeuronMaskFn = std::function<std::vector<bool>(
    size_t layer_idx, std::span<const double> stream,
    std::span<const double> normed)>;

// Logits [T, V] of all positions, every neuron computed unless there is a mask,
// from the decoded weights; shares no code with the engine, its kernels or its
// angles. Tokens come one after the other, each with all its layers.
std::vector<double> ReferenceLogits(const model::Config& config,
                                    const model::Weights& weights,
                                    std::span<const text::TokenId> tokens,
                                    Mistake mistake = Mistake::kNone,
                                    const NeuronMaskFn& mask = {});
std::vector<double> ReferenceLogits(const model::Model& model,
                                    std::span<const text::TokenId> tokens,
                                    Mistake mistake = Mistake::kNone);

// The angle of pair `pair` at `position`, and YaRN's magnitude.
double ReferenceAngle(const model::RopeConfig& rope, double freq_factor,
                      int pair, double position);
double ReferenceMagnitude(const model::RopeConfig& rope);

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_REFERENCE_H_
