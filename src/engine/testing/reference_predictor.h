// Trained predictors written down once more, plainly and in double precision.
#ifndef THERMOCLINE_ENGINE_TESTING_REFERENCE_PREDICTOR_H_
#define THERMOCLINE_ENGINE_TESTING_REFERENCE_PREDICTOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/testing/reference.h"
#include "model/model.h"
#include "text/vocab.h"

namespace thermocline::engine::testing {

// What a predictor reads: as the file's kind says, or known wrong ways.
enum class PredictorInput {
  kRight,
  kNormed,    // PowerInfer: what the FFN reads
  kOwnLayer,  // KAIROX: every layer's own input
  kUnnormed,  // KAIROX: the stream of the layer before
};

struct MaskedReference {
  std::vector<double> logits;  // [T, V]
  // Scores [F] by (layer, position), of layers with a predictor.
  std::map<std::pair<size_t, int64_t>, std::vector<double>> scores;
};

// ReferenceLogits with the model's predictors deciding which neurons count:
// those whose sigmoid is not below that of the threshold (KAIROX), or whose
// score is not below the threshold (PowerInfer); NaN is not below anything.
MaskedReference RunMaskedReference(
    const model::Model& model, std::span<const text::TokenId> tokens,
    PredictorInput input = PredictorInput::kRight);

// The active sets that a session reported, by (layer, position).
using ActiveSets = std::map<std::pair<size_t, int64_t>, std::vector<uint32_t>>;

// Fails the calling test unless `sets` are those of the scores, but for neurons
// whose score is nearer to the threshold than `margin`.
void ExpectActiveSets(const ActiveSets& sets, const MaskedReference& reference,
                      double threshold, double margin);

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_REFERENCE_PREDICTOR_H_
