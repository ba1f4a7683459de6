#include "engine/ffn/dense_ffn.h"

#include <algorithm>
#include <array>
#include <span>

#include "compute/stage_times.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/ffn/transposed_down.h"

namespace thermocline::engine {
namespace {

class DenseFfn final : public FfnExecutor {
 public:
  DenseFfn(const model::FfnSpec* config, const model::FfnWeights* weights,
           const compute::Compute* compute, const FfnScratch* scratch)
      : config_(config),
        weights_(weights),
        compute_(compute),
        scratch_(scratch) {}

  Status Run(const FfnCall& call) override {
    ComputeHidden(call);
    if (call.sets.is_recorded) Record(call);
    AddUpHidden(call);
    return {};
  }

  compute::Rows gate() const override { return scratch_->gate; }

 private:
  // Leaves the hidden vector in scratch.up.
  void ComputeHidden(const FfnCall& call) const {
    const compute::ScopedStage stage(
        *compute_, compute::Stage::kUpGate,
        weights_->up.num_bytes() +
            (config_->gated ? weights_->gate.num_bytes() : 0));
    const std::array<compute::Product, 2> up_and_gate = {{
        {weights_->up, weights_->up_bias, scratch_->up},
        {weights_->gate, weights_->gate_bias, scratch_->gate},
    }};
    MultiplyAll(*compute_, FormOf(call.phase), call.normed, call.num_rows,
                std::span(up_and_gate).first(config_->gated ? 2 : 1));
    Activate(call);
  }

  // From scratch.up to the call's output.
  void AddUpHidden(const FfnCall& call) const {
    const compute::ScopedStage stage(
        *compute_, compute::Stage::kDown,
        (weights_->down ? weights_->down : weights_->down_t).num_bytes());
    if (weights_->down) {
      const std::array<compute::Product, 1> down = {
          {{weights_->down, weights_->down_bias, call.out}}};
      MultiplyAll(*compute_, FormOf(call.phase), scratch_->up, call.num_rows,
                  down);
      return;
    }
    const RowSums sums = {.matrix = weights_->down_t,
                          .bias = weights_->down_bias,
                          .coefs = scratch_->up,
                          .out = call.out};
    if (call.phase == Phase::kPrompt &&
        CanMultiplyTransposed(*compute_, *scratch_, weights_->down_t)) {
      MultiplyTransposed(*compute_, *scratch_, sums, call.num_rows);
    } else {
      SumRows(*compute_, sums, call.num_rows);
    }
  }

  void Record(const FfnCall& call) const {
    for (size_t t = 0; t < call.num_rows; ++t) {
      call.sets.named(t).Fill();
      call.sets.fired(t).Clear();
      AddFired(call.sets.fired(t), scratch_->up.span(t));
    }
  }

  // The raw products stay in scratch.gate, if there is one.
  void Activate(const FfnCall& call) const {
    compute_->pool->ParallelFor(
        call.num_rows, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t t = begin; t < end; ++t) {
            float* up = scratch_->up.row(t);
            const float* gate =
                config_->gated ? scratch_->gate.row(t) : nullptr;
            if (!config_->gated && call.sets.is_recorded) {
              std::ranges::copy(scratch_->up.span(t), scratch_->gate.row(t));
            }
            compute_->kernels->activate(config_->activation, config_->threshold,
                                        gate, up, scratch_->up.width, up);
          }
        });
  }

  const model::FfnSpec* config_;
  const model::FfnWeights* weights_;
  const compute::Compute* compute_;
  const FfnScratch* scratch_;
};

}  // namespace

std::unique_ptr<FfnExecutor> MakeDenseFfn(const model::FfnSpec* config,
                                          const model::FfnWeights* weights,
                                          const compute::Compute* compute,
                                          const FfnScratch* scratch) {
  return std::make_unique<DenseFfn>(config, weights, compute, scratch);
}

}  // namespace thermocline::engine
