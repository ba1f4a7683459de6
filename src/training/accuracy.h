// How well a predictor says what fires, as the engine will compute it, and the
// threshold that gives a wanted recall.
#ifndef THERMOCLINE_TRAINING_ACCURACY_H_
#define THERMOCLINE_TRAINING_ACCURACY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tensor/dtype.h"
#include "training/gemm.h"
#include "training/low_rank.h"

namespace thermocline::training {

// Counts over samples and neurons.
struct Accuracy {
  uint64_t num_samples = 0;
  uint64_t num_neurons = 0;  // that a sample goes through: F, or U * F
  uint64_t num_fired = 0;
  uint64_t num_candidates = 0;
  uint64_t num_hits = 0;  // of both

  double density() const;    // fired / all
  double recall() const;     // hits / fired; 1 if nothing fired
  double precision() const;  // hits / candidates; 1 without candidates
  double candidates_per_fired() const;  // 0 if nothing fired
};

// A predictor with its matrices in a type of the file format, and floats that
// have the same values. The engine rounds what block types are multiplied with
// to 8 bits, per 32 elements: so do the scores here.
struct RoundedPredictor {
  LowRank values;
  DType dtype = DType::kF16;
};
// Requires rows of both matrices that divide into the type's blocks. (CHECKed)
RoundedPredictor Round(const LowRank& predictor, DType dtype);

// scores [count, N] of inputs x [count, D], which are rounded in their place.
void ComputeScores(const Gemm& gemm, const RoundedPredictor& predictor,
                   float* x, size_t count, float* scores);

// Told the scores [count, N] of samples [begin, begin + count).
using ScoresFn =
    std::function<void(size_t begin, size_t count, const float* scores)>;

// In batches, in order, on the calling thread.
void ForEachScores(const Gemm& gemm, const RoundedPredictor& predictor,
                   const Samples& samples, const ScoresFn& visit);

// The same of down (up x) + down_bias, without the ReLU and up_bias.
void ForEachLinearScores(const Gemm& gemm, const RoundedPredictor& predictor,
                         const Samples& samples, const ScoresFn& visit);

// What a threshold is chosen for: the recall that was asked for; but before the
// candidates are more than max_candidates times what fired, less recall, down
// to recall_floor.
struct RecallGoal {
  double recall = 0.99;
  double recall_floor = 0.97;
  double max_candidates = 1.5;
};

// The threshold by which that goal is met over `samples` (score >= threshold);
// -infinity if nothing fired. It lies halfway from the lowest score that it
// keeps to the next one: samples are stored in 16 bits, so what the engine
// computes is a little off. Memory: 4 bytes a sample and neuron.
float ThresholdFor(const Gemm& gemm, const RoundedPredictor& predictor,
                   const Samples& samples, const RecallGoal& goal);

// The same choice from scores: of everything, and of what fired. Reorders both.
float ChooseThreshold(std::vector<float>& scores, std::vector<float>& of_fired,
                      const RecallGoal& goal);

// Of candidates: score >= threshold.
Accuracy Measure(const Gemm& gemm, const RoundedPredictor& predictor,
                 const Samples& samples, float threshold);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_ACCURACY_H_
