// Which experts a router picks, and which the next layer's seems to.
#ifndef THERMOCLINE_ENGINE_FFN_EXPERT_CHOICE_H_
#define THERMOCLINE_ENGINE_FFN_EXPERT_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/matmul.h"
#include "compute/norm.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_scratch.h"
#include "engine/stream/expert_stream.h"
#include "model/config.h"
#include "tensor/tensor_view.h"

namespace thermocline::engine {

// Mixtral's rule. `shares` [E] holds a router's logits and becomes their
// softmax; chosen [U] receives the experts with the largest shares, largest
// first (of equals the one with the lowest index), weights [U] their shares
// divided by the chosen ones' sum. 1 <= U <= E. A logit that is NaN or +inf
// makes every weight NaN, so that damage shows in the output; `chosen` holds U
// different experts whatever the logits.
void ChooseExperts(std::span<float> shares, std::span<uint32_t> chosen,
                   std::span<float> weights);

// The router of the layer behind, asked what it would choose for this layer's
// stream: much of that it will choose.
struct NextRouter {
  size_t layer_idx = 0;
  const model::FfnSpec* config = nullptr;  // null: nobody is asked
  TensorView router;
  compute::Norm norm;  // of its FFN
};

class ExpertGuess {
 public:
  ExpertGuess(const NextRouter& next, const compute::Compute* compute);

  // Guesses from the stream of a call's rows, whose experts are known, but none
  // is computed yet: what they use of `scratch` later is free, and shares have
  // been used. At most kNumApart choices.
  void Make(const FfnCall& call, const ExpertScratch& scratch,
            ExpertStream& stream);

 private:
  NextRouter next_;
  const compute::Compute* compute_;
  std::vector<uint32_t> experts_;  // the likeliest first
  std::vector<uint32_t> chosen_;   // [kNumApart] by row
  std::vector<float> weights_;     // [U]
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_EXPERT_CHOICE_H_
