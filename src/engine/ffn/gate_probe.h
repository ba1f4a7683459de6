// Which neurons an input fires when all of them are computed: what the
// candidates of a predictor are measured against.
#ifndef THERMOCLINE_ENGINE_FFN_GATE_PROBE_H_
#define THERMOCLINE_ENGINE_FFN_GATE_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/ffn/ffn_observer.h"
#include "kernels/isa.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "os/memory.h"

namespace thermocline::engine {

// Computes the products of single tokens, as a session in a sparse mode does:
// its neurons that fire are exactly those of its candidates that the probe
// finds.
// Threads  one caller at a time; computes alone.
class GateProbe {
 public:
  // `rest_below` [L], or empty: neurons of layer l whose opened gate |f(gate)|
  // is less than rest_below[l] are at rest, as in FfnMode::kThreshold.
  // kResourceExhausted: no memory.
  static Result<std::unique_ptr<GateProbe>> Create(
      std::shared_ptr<const model::Model> model, kernels::Isa isa,
      std::vector<float> rest_below = {});

  // Looks at all neurons of the layer's FFN with what it read; of a mixture, at
  // those of the experts that the token uses.
  // Cost: reads the tested matrix once, and the up rows of open neurons.
  void Look(const FfnObservation& seen);

  // Of the last input, ascending, numbered as in FfnObservation. Open: whose
  // gate lets something through (without a gate: that fire); fired: h != 0.
  std::span<const uint32_t> open() const { return open_; }
  std::span<const uint32_t> fired() const { return fired_; }

 private:
  GateProbe(std::shared_ptr<const model::Model> model, kernels::Isa isa,
            std::vector<float> rest_below, os::AlignedBuffer input);
  const std::byte* InputFor(DType dtype) const;
  void SetInput(std::span<const float> x);
  // One FFN, or the expert whose neuron 0 is number `first`.
  void LookAt(const model::FfnSpec& spec, const model::FfnMatrices& matrices,
              const model::FfnWeights& weights, float rest_below,
              uint32_t first);
  void Test(const model::FfnSpec& spec, const TensorView& weight,
            const TensorView& bias, float rest_below);
  void MultiplyUp(const TensorView& weight, const TensorView& bias);

  std::shared_ptr<const model::Model> model_;
  const kernels::KernelTable* kernels_;
  std::vector<float> rest_below_;
  os::AlignedBuffer input_;      // floats [D], then the same rounded
  std::vector<float> products_;  // [F]
  std::vector<float> opened_;    // [F]
  // Of the open neurons, numbered within the expert.
  std::vector<uint32_t> ids_;
  std::vector<float> hidden_;
  std::vector<uint32_t> open_;
  std::vector<uint32_t> fired_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_GATE_PROBE_H_
