#include "engine/ffn/expert_choice.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "compute/stage_times.h"

namespace thermocline::engine {
namespace {

void SoftmaxInPlace(std::span<float> values) {
  const float highest = *std::ranges::max_element(values);
  float total = 0.0f;
  for (float& value : values) total += value = std::exp(value - highest);
  for (float& value : values) value /= total;
}

}  // namespace

void ChooseExperts(std::span<float> shares, std::span<uint32_t> chosen,
                   std::span<float> weights) {
  TC_DCHECK(!chosen.empty() && chosen.size() <= shares.size());
  SoftmaxInPlace(shares);
  // Insertion into the list of the best so far. A comparison with NaN is
  // false: such shares stay where they are, and every place is still filled.
  size_t num_chosen = 0;
  for (uint32_t e = 0; e < shares.size(); ++e) {
    size_t rank = num_chosen;
    while (rank > 0 && shares[e] > shares[chosen[rank - 1]]) --rank;
    if (rank == chosen.size()) continue;
    if (num_chosen < chosen.size()) ++num_chosen;
    std::copy_backward(chosen.begin() + static_cast<ptrdiff_t>(rank),
                       chosen.begin() + static_cast<ptrdiff_t>(num_chosen) - 1,
                       chosen.begin() + static_cast<ptrdiff_t>(num_chosen));
    chosen[rank] = e;
  }
  float total = 0.0f;
  for (const uint32_t e : chosen) total += shares[e];
  for (size_t i = 0; i < chosen.size(); ++i) {
    weights[i] = shares[chosen[i]] / total;
  }
}

ExpertGuess::ExpertGuess(const NextRouter& next,
                         const compute::Compute* compute)
    : next_(next), compute_(compute) {
  if (next.config == nullptr) return;
  experts_.reserve(next.config->num_experts);
  chosen_.resize(kNumApart);
  weights_.resize(next.config->num_experts_used);
}

void ExpertGuess::Make(const FfnCall& call, const ExpertScratch& scratch,
                       ExpertStream& stream) {
  if (next_.config == nullptr) return;
  const size_t num_used = next_.config->num_experts_used;
  TC_CHECK(call.num_rows * num_used <= chosen_.size());
  TC_CHECK(next_.config->num_experts == scratch.shares.width);
  const compute::ScopedStage stage(*compute_, compute::Stage::kRoute,
                                   next_.router.num_bytes());
  compute::Rows x = call.stream;
  if (next_.config->router_input == model::RouterInput::kFfnInput) {
    Normalize(*compute_, next_.norm, call.stream, call.num_rows, scratch.in);
    x = scratch.in;
  }
  const std::array<compute::Product, 1> route = {
      {{next_.router, TensorView(), scratch.shares}}};
  MultiplyAll(*compute_, FormOf(call.phase), x, call.num_rows, route);
  for (size_t t = 0; t < call.num_rows; ++t) {
    ChooseExperts(scratch.shares.span(t),
                  std::span(chosen_).subspan(t * num_used, num_used), weights_);
  }
  experts_.clear();
  for (size_t rank = 0; rank < num_used; ++rank) {
    for (size_t t = 0; t < call.num_rows; ++t) {
      const uint32_t expert = chosen_[t * num_used + rank];
      if (std::ranges::find(experts_, expert) == experts_.end()) {
        experts_.push_back(expert);
      }
    }
  }
  stream.Guess(next_.layer_idx, experts_);
}

}  // namespace thermocline::engine
