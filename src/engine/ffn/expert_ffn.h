// A mixture of experts: each token's feed-forward block is the weighted sum of
// the few that a router picks for it.
#ifndef THERMOCLINE_ENGINE_FFN_EXPERT_FFN_H_
#define THERMOCLINE_ENGINE_FFN_EXPERT_FFN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "compute/matmul.h"
#include "engine/ffn/device_experts.h"
#include "engine/ffn/expert_choice.h"
#include "engine/ffn/expert_records.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/ffn/ffn_scratch.h"
#include "engine/stream/expert_stream.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

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
  // Where experts come from that stay in the file; null: they are in memory.
  ExpertStream* stream = nullptr;
  NextRouter next;  // with a stream
  // Where their neurons' records come from that stay there; null stream: they
  // are in memory, or whole experts come.
  ExpertRecords::Parts records;
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
// With a stream the experts of few rows are computed as they come from the
// file, those of more in their order, and the bits are the same. With records
// that come from it they are computed in their order.
std::unique_ptr<FfnExecutor> MakeExpertFfn(const ExpertFfnParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_EXPERT_FFN_H_
