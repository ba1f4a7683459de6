// The steps of generated tokens on a simulated machine without their numbers:
// what a model would take whose weights are not here.
#ifndef THERMOCLINE_ENGINE_DEVICE_TIMED_PASS_H_
#define THERMOCLINE_ENGINE_DEVICE_TIMED_PASS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "device/sim/op_check.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/runtime.h"
#include "model/model.h"
#include "neuron/neuron_set.h"

namespace thermocline::engine {

struct TimedParts {
  std::shared_ptr<const model::Model>
      model;  // Model::ShapeOf's, or a whole one
  // With a placement on a device that keeps time only, and `work`, which hears
  // what the host would read.
  RuntimePlan plan;
  // What the device is told of an operation's data
  // (device::SimOptions::counts): set before each.
  device::SimCounts* counts = nullptr;
};

// What HostForward does with one generated row of one sequence: the device's
// executors are called as there, what the host computes is told to `work`
// alone. Mixtures and training-free predictors: kUnsupported.
class TimedPass {
 public:
  static Result<std::unique_ptr<TimedPass>> Make(const TimedParts& parts);
  virtual ~TimedPass() = default;

  // The next token. [L] each: whom the layer's predictor names (not looked at
  // without one), and who fires.
  virtual Status Generate(std::span<const neuron::NeuronSet> candidates,
                          std::span<const neuron::NeuronSet> fired) = 0;
  // As if so many positions had been computed, by the host.
  virtual Status Skip(int64_t num_positions) = 0;
  virtual const SparseTotals& totals() const = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_DEVICE_TIMED_PASS_H_
