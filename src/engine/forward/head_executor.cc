#include "engine/forward/head_executor.h"

#include <array>

namespace thermocline::engine {
namespace {

class HostHead final : public HeadExecutor {
 public:
  HostHead(const model::Weights* weights, const compute::Compute* compute)
      : weights_(weights), compute_(compute) {}

  Status Run(const HeadCall& call) override {
    const std::array<compute::Product, 1> head = {
        {{weights_->head, TensorView(), call.logits}}};
    MultiplyAll(*compute_, FormOf(call.phase), call.normed, call.num_rows,
                head);
    return {};
  }
  size_t num_bytes() const override { return weights_->head.num_bytes(); }

 private:
  const model::Weights* weights_;
  const compute::Compute* compute_;
};

}  // namespace

std::unique_ptr<HeadExecutor> MakeHostHead(const model::Weights* weights,
                                           const compute::Compute* compute) {
  return std::make_unique<HostHead>(weights, compute);
}

}  // namespace thermocline::engine
