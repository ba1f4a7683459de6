#include "engine/ffn/dense_ffn.h"

#include <algorithm>
#include <array>
#include <span>

#include "engine/ffn/observed_sets.h"
#include "engine/ffn/sum_rows.h"
#include "engine/ffn/turned_down.h"
#include "engine/profile.h"

namespace thermocline::engine {
namespace {

class DenseFfn final : public FfnExecutor {
 public:
  DenseFfn(const model::FfnConfig* config, const model::FfnWeights* weights,
           const Compute* compute, const Scratch* scratch)
      : config_(config),
        weights_(weights),
        compute_(compute),
        scratch_(scratch) {}

  void Run(size_t num_tokens) override {
    ComputeHidden(num_tokens);
    if (scratch_->observed) Observe(num_tokens);
    AddUpHidden(num_tokens);
  }

  Rows gate() const override { return scratch_->gate; }

 private:
  // Leaves the hidden vector in scratch.up.
  void ComputeHidden(size_t num_tokens) const {
    const ScopedStage stage(
        *compute_, Stage::kUpGate,
        weights_->up.num_bytes() +
            (config_->gated ? weights_->gate.num_bytes() : 0));
    const std::array<Product, 2> up_and_gate = {{
        {weights_->up, weights_->up_bias, scratch_->up},
        {weights_->gate, weights_->gate_bias, scratch_->gate},
    }};
    MultiplyAll(*compute_, scratch_->normed, num_tokens,
                std::span(up_and_gate).first(config_->gated ? 2 : 1));
    Activate(num_tokens);
  }

  // From scratch.up to scratch.delta.
  void AddUpHidden(size_t num_tokens) const {
    const ScopedStage stage(
        *compute_, Stage::kDown,
        (weights_->down ? weights_->down : weights_->down_t).num_bytes());
    if (!weights_->down &&
        CanTurnDown(*compute_, *scratch_, weights_->down_t, num_tokens)) {
      MultiplyTurned(*compute_, *scratch_, weights_->down_t,
                     weights_->down_bias, num_tokens);
      return;
    }
    if (!weights_->down) {
      SumRows(*compute_,
              {.matrix = weights_->down_t,
               .bias = weights_->down_bias,
               .coefs = scratch_->up,
               .out = scratch_->delta},
              num_tokens);
      return;
    }
    const std::array<Product, 1> down = {
        {{weights_->down, weights_->down_bias, scratch_->delta}}};
    MultiplyAll(*compute_, scratch_->up, num_tokens, down);
  }

  void Observe(size_t num_tokens) const {
    for (size_t t = 0; t < num_tokens; ++t) {
      AddAll(scratch_->observed.candidates(t));
      AddFired(scratch_->observed.fired(t), scratch_->up.span(t));
    }
  }

  // The raw products stay in scratch.gate, if there is one.
  void Activate(size_t num_tokens) const {
    compute_->pool->ParallelFor(
        num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
          for (size_t t = begin; t < end; ++t) {
            float* up = scratch_->up.row(t);
            const float* gate =
                config_->gated ? scratch_->gate.row(t) : nullptr;
            if (!config_->gated && scratch_->observed) {
              std::ranges::copy(scratch_->up.span(t), scratch_->gate.row(t));
            }
            compute_->kernels->activate(config_->activation, config_->threshold,
                                        gate, up, scratch_->up.width, up);
          }
        });
  }

  const model::FfnConfig* config_;
  const model::FfnWeights* weights_;
  const Compute* compute_;
  const Scratch* scratch_;
};

}  // namespace

std::unique_ptr<FfnExecutor> MakeDenseFfn(const model::FfnConfig* config,
                                          const model::FfnWeights* weights,
                                          const Compute* compute,
                                          const Scratch* scratch) {
  return std::make_unique<DenseFfn>(config, weights, compute, scratch);
}

}  // namespace thermocline::engine
