#include "engine/ffn/low_rank.h"

#include <array>

#include "base/check.h"
#include "predictor/threshold.h"

namespace thermocline::engine {
namespace {

constexpr size_t kSetAlignment = 64;  // NeuronSet::Part

class LowRankSelector final : public Selector {
 public:
  LowRankSelector(const model::PredictorWeights& weights, float threshold,
                  size_t layer_idx, const Compute* compute,
                  const Scratch* scratch)
      : weights_(weights),
        threshold_(threshold),
        layer_idx_(layer_idx),
        compute_(*compute),
        scratch_(*scratch) {}

  void Select(const Rows& x, size_t num_tokens) override {
    const size_t rank = weights_.up.shape.num_rows();
    TC_CHECK(rank <= scratch_.gate.width);
    const Rows hidden = {scratch_.gate.data, rank, scratch_.gate.stride};
    auto relu = [&](size_t first, size_t count) {
      for (size_t t = 0; t < num_tokens; ++t) {
        float* values = hidden.row(t) + first;
        compute_.kernels->activate(Activation::kRelu, 0.0f, nullptr, values,
                                   count, values);
      }
    };
    const std::array<Product, 1> up = {
        {{weights_.up, weights_.up_bias, hidden, RowsDone::Of(relu)}}};
    MultiplyAll(compute_, x, num_tokens, up);
    auto take = [&](size_t first, size_t count) {
      for (size_t t = 0; t < num_tokens; ++t) {
        const auto set = scratch_.sparse.candidates(layer_idx_, t);
        predictor::SelectAtLeast({scratch_.up.row(t) + first, count},
                                 threshold_, set.Part(first, count));
      }
    };
    const std::array<Product, 1> down = {
        {{weights_.down, weights_.down_bias, scratch_.up,
          RowsDone::Of(take, kSetAlignment)}}};
    MultiplyAll(compute_, hidden, num_tokens, down);
  }

  size_t num_bytes() const override {
    return weights_.up.num_bytes() + weights_.down.num_bytes();
  }

 private:
  model::PredictorWeights weights_;
  float threshold_;
  size_t layer_idx_;
  const Compute& compute_;
  const Scratch& scratch_;
};

}  // namespace

std::unique_ptr<Selector> MakeLowRankSelector(
    const model::PredictorWeights& weights, float threshold, size_t layer_idx,
    const Compute* compute, const Scratch* scratch) {
  TC_CHECK(weights.up && weights.down);
  return std::make_unique<LowRankSelector>(weights, threshold, layer_idx,
                                           compute, scratch);
}

}  // namespace thermocline::engine
