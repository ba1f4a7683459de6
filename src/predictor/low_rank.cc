#include "predictor/low_rank.h"

#include <array>
#include <atomic>

#include "base/check.h"
#include "predictor/threshold.h"

namespace thermocline::predictor {
namespace {

constexpr size_t kSetAlignment = 64;  // NeuronSet::Part

class LowRankSelector final : public Selector {
 public:
  LowRankSelector(const model::PredictorWeights& weights, float threshold,
                  const compute::Compute* compute,
                  const SelectorScratch* scratch)
      : weights_(weights),
        threshold_(threshold),
        compute_(*compute),
        scratch_(*scratch) {}

  Status Select(compute::ProductForm form, const compute::Rows& x,
                size_t num_rows, const neuron::ActiveSets& sets) override {
    std::atomic<bool> is_finite = true;
    const size_t rank = weights_.up.shape.num_rows();
    TC_CHECK(rank <= scratch_.hidden.width);
    const compute::Rows hidden = {scratch_.hidden.data, rank,
                                  scratch_.hidden.stride};
    auto relu = [&](size_t first, size_t count) {
      for (size_t t = 0; t < num_rows; ++t) {
        float* values = hidden.row(t) + first;
        // Here and not in the scores alone: what is below zero goes.
        if (!compute_.kernels->all_finite(values, count)) is_finite = false;
        compute_.kernels->activate(Activation::kRelu, 0.0f, nullptr, values,
                                   count, values);
      }
    };
    const std::array<compute::Product, 1> up = {
        {{weights_.up, weights_.up_bias, hidden, compute::RowsDone::Of(relu)}}};
    MultiplyAll(compute_, form, x, num_rows, up);
    auto take = [&](size_t first, size_t count) {
      for (size_t t = 0; t < num_rows; ++t) {
        const float* scores = scratch_.scores.row(t) + first;
        if (!compute_.kernels->all_finite(scores, count)) is_finite = false;
        SelectAtLeast({scores, count}, threshold_,
                      sets.named(t).Part(first, count));
      }
    };
    const std::array<compute::Product, 1> down = {
        {{weights_.down, weights_.down_bias, scratch_.scores,
          compute::RowsDone::Of(take, kSetAlignment)}}};
    MultiplyAll(compute_, form, hidden, num_rows, down);
    if (!is_finite) return ScoresNotFinite();
    return {};
  }

  size_t num_bytes() const override {
    return weights_.up.num_bytes() + weights_.down.num_bytes();
  }

 private:
  model::PredictorWeights weights_;
  float threshold_;
  const compute::Compute& compute_;
  const SelectorScratch& scratch_;
};

}  // namespace

std::unique_ptr<Selector> MakeLowRankSelector(
    const model::PredictorWeights& weights, float threshold,
    const compute::Compute* compute, const SelectorScratch* scratch) {
  TC_CHECK(weights.up && weights.down);
  return std::make_unique<LowRankSelector>(weights, threshold, compute,
                                           scratch);
}

}  // namespace thermocline::predictor
