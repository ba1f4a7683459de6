#include <algorithm>
#include <vector>

#include "planner/check.h"

namespace thermocline::planner {
namespace {

// One step of a token: bytes by who would read them.
struct AuditStep {
  bool is_ffn = false;
  bool is_split = false;    // something of it is on the device
  double there = 0.0;       // the device's reads of what lies there
  double not_there = 0.0;   // its reads of what does not, had it that
  double host = 0.0;        // the host's reads of what is not there
  double num_absent = 0.0;  // neurons and experts not there, of a token
};

void AuditPart(const Part& part, bool is_there, std::vector<AuditStep>& steps) {
  if (part.host_read == 0.0 && part.bytes == 0) return;
  AuditStep step;
  step.is_split = is_there;
  (is_there ? step.there : step.not_there) = part.device_read;
  if (!is_there) {
    step.host = part.host_read;
    step.num_absent = 1.0;
  }
  steps.push_back(step);
}

void AuditFfn(const Layer& layer, const LayerPlace& place, bool is_dense,
              std::vector<AuditStep>& steps) {
  AuditStep step{.is_ffn = true};
  std::vector<bool> neurons(layer.neurons.frequency.size());
  for (const uint32_t neuron : place.neurons) neurons[neuron] = true;
  std::vector<bool> experts(layer.experts.experts.size());
  for (const uint32_t expert : place.experts) experts[expert] = true;
  const auto add = [&](bool is_there, double device, double host,
                       double times) {
    (is_there ? step.there : step.not_there) += device;
    if (is_there) return;
    step.host += host;
    step.num_absent += times;
  };
  const Neurons& all = layer.neurons;
  for (size_t i = 0; i < neurons.size(); ++i) {
    const double fires = is_dense ? 1.0 : static_cast<double>(all.frequency[i]);
    double tested = fires * all.tested_per_fired;
    if (all.tested_per_fired == 0.0 || tested > 1.0) tested = 1.0;
    add(neurons[i], tested * all.device.tested + fires * all.device.rest,
        tested * all.host.tested + fires * all.host.rest, tested);
  }
  for (size_t i = 0; i < experts.size(); ++i) {
    const Expert& expert = layer.experts.experts[i];
    const auto times = static_cast<double>(expert.frequency);
    add(experts[i], times * expert.device_read, times * expert.host_read,
        times);
  }
  step.is_split = !place.neurons.empty() || !place.experts.empty();
  if (!neurons.empty() || !experts.empty()) steps.push_back(step);
}

std::vector<AuditStep> AuditSteps(const Problem& problem,
                                  const Placement& placement) {
  const bool is_dense =
      placement.scheme == Scheme::kDense || placement.scheme == Scheme::kStream;
  std::vector<AuditStep> steps;
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const Layer& layer = problem.layers[i];
    const LayerPlace& place = placement.layers[i];
    AuditPart(layer.attention, place.attention, steps);
    if (!is_dense) AuditPart(layer.predictor, place.predictor, steps);
    AuditPart(layer.matrices, place.matrices, steps);
    AuditFfn(layer, place, is_dense, steps);
  }
  AuditPart(problem.head, placement.head, steps);
  return steps;
}

double SteppedSeconds(const Hardware& hardware, const AuditStep& step) {
  const double host = step.host / hardware.host_rate;
  if (!step.is_split) return host;
  const double device =
      hardware.launch_seconds + step.there / hardware.device_rate;
  return hardware.sync_seconds + std::max(device, host);
}

// Of a device that computes all of a step, and of the link for what it lacks.
double DeviceSeconds(const Hardware& hardware, const AuditStep& step) {
  return hardware.launch_seconds +
         (step.there + step.not_there) / hardware.device_rate;
}
double LinkSeconds(const Hardware& hardware, const AuditStep& step,
                   double num_copies) {
  if (step.num_absent == 0.0) return 0.0;
  return step.host / std::min(hardware.up_rate, hardware.bus_rate) +
         num_copies * hardware.copy_seconds;
}

}  // namespace

double AuditSeconds(const Problem& problem, const Placement& placement) {
  const Hardware& hardware = problem.hardware;
  const std::vector<AuditStep> steps = AuditSteps(problem, placement);
  double seconds = problem.fixed_seconds;
  for (size_t i = 0; i < steps.size(); ++i) {
    const AuditStep& step = steps[i];
    const AuditStep& next = steps[i + 1 == steps.size() ? 0 : i + 1];
    switch (placement.scheme) {
      case Scheme::kSparse:
      case Scheme::kDense:
        seconds += SteppedSeconds(hardware, step);
        break;
      case Scheme::kStream:
        seconds += std::max(DeviceSeconds(hardware, step),
                            LinkSeconds(hardware, next, 1.0));
        break;
      case Scheme::kFetch:
        seconds += std::max(DeviceSeconds(hardware, step),
                            LinkSeconds(hardware, step, step.num_absent));
        if (step.is_ffn && step.num_absent > 0.0) {
          seconds += hardware.sync_seconds;
        }
        break;
    }
  }
  return seconds;
}

}  // namespace thermocline::planner
