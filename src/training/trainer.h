// Trains a low-rank predictor: minibatches, an asymmetric loss, Adam.
#ifndef THERMOCLINE_TRAINING_TRAINER_H_
#define THERMOCLINE_TRAINING_TRAINER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "training/gemm.h"
#include "training/low_rank.h"

namespace thermocline::training {

struct TrainOptions {
  // A neuron that fired and is missed costs so many times what a candidate that
  // stays shut does: scores settle around P(fires) = 1 / (1 + weight).
  float positive_weight = 8.0f;
  size_t batch = 256;
  size_t num_steps = 1000;
  float learning_rate = 2e-3f;  // at the start; falls to 0 as a cosine
  uint64_t seed = 0;
  const std::atomic<bool>* cancel = nullptr;      // looked at every step
  std::function<void(size_t num_done)> progress;  // of num_steps; may be empty
};

// Memory that steps work in.
struct TrainScratch {
  std::vector<float> x;                // [B, D]
  std::vector<float> hidden;           // [B, R]
  std::vector<float> hidden_gradient;  // [B, R]
  // Of the g <= B samples that use one expert.
  std::vector<size_t> group;
  std::vector<float> group_hidden;    // [g, R]
  std::vector<float> scores;          // [g, F], then the loss's derivatives
  std::vector<float> group_gradient;  // [g, R]
};

// The gradients of
//   1/B sum over b, i of  w y log(1 + e^-s) + (1 - y) log(1 + e^s)
// over samples picked[0 .. B) and the neurons i of the experts that each uses,
// with s the scores, y whether neuron i fired and w the weight. scratch.x has
// the samples' inputs. They have the predictor's shapes.
void ComputeGradients(const Gemm& gemm, const LowRank& predictor,
                      const Samples& samples, const std::vector<size_t>& picked,
                      float positive_weight, TrainScratch& scratch,
                      LowRank& gradients);

// Trains `predictor` on random batches of `samples`, every sample once per
// round. The same predictor, samples and options give the same bits, whatever
// the number of threads, on one machine. kCancelled: the flag was set.
// Requires samples. Cost: 6 R (D + F) B floating-point operations a step.
// Source: PowerInfer 5.1; Adam is Kingma and Ba 2014.
Status Train(const Gemm& gemm, const Samples& samples,
             const TrainOptions& options, LowRank& predictor);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_TRAINER_H_
