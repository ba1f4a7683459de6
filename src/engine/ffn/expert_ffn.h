// A mixture of experts: each token's feed-forward block is the weighted sum of
// the few that a router picks for it.
#ifndef THERMOCLINE_ENGINE_FFN_EXPERT_FFN_H_
#define THERMOCLINE_ENGINE_FFN_EXPERT_FFN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "compute/matmul.h"
#include "engine/ffn/device_experts.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_scratch.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// Mixtral's rule. `shares` [E] holds a router's logits and becomes their
// softmax; chosen [U] receives the experts with the largest shares, largest
// first (of equals the one with the lowest index), weights [U] their shares
// divided by the chosen ones' sum. 1 <= U <= E. A logit that is NaN or +inf
// makes every weight NaN, so that damage shows in the output; `chosen` holds U
// different experts whatever the logits.
void ChooseExperts(std::span<float> shares, std::span<uint32_t> chosen,
                   std::span<float> weights);

// Makes what runs expert `expert_idx`, whose weights outlive it.
using MakeOneExpert = std::function<std::unique_ptr<FfnExecutor>(
    size_t expert_idx, const model::FfnWeights* weights)>;

// All of it outlives the executor, but for make_one.
struct ExpertFfnParts {
  size_t layer_idx = 0;  // for errors
  const model::FfnSpec* config = nullptr;
  const model::FfnWeights* weights = nullptr;
  const compute::Compute* compute = nullptr;
  const FfnScratch* scratch = nullptr;
  MakeOneExpert make_one;
  // Experts that a device computes meanwhile; null: none. Then `make_one` makes
  // SparseFfns that choose candidates as these two say.
  DeviceExperts* device = nullptr;
  bool has_candidates = false;
  bool is_mask = false;
};

// out = sum over the chosen e, lowest first, of weight_e * FFN_e(x), wherever
// each is computed. The rows of a call that share an expert go through it
// together: its weights are read once, those of experts that no row chose are
// not read. With a device so do the rows of each group of kernels::kDeviceRows.
std::unique_ptr<FfnExecutor> MakeExpertFfn(const ExpertFfnParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_EXPERT_FFN_H_
