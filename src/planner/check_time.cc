#include <algorithm>
#include <vector>

#include "planner/check.h"

namespace thermocline::planner {
namespace {

// One step of a token: bytes by who reads them and where.
struct AuditStep {
  bool is_split = false;   // something of it is on the device
  bool is_linked = false;  // or its weights cross the link
  double there = 0.0;      // the device's reads of its memory
  double linked = 0.0;     // and over the link
  double host = 0.0;       // the host's reads
  double late = 0.0;       // seconds after which the host begins
  double hidden = 0.0;     // of the round trip, behind the next step
};

bool Crosses(const Placement& placement, Rule rule) {
  const bool can =
      placement.scheme == Scheme::kStream || placement.scheme == Scheme::kFetch;
  return can && rule != Rule::kHost;
}

void AuditPart(const Placement& placement, const Part& part, bool is_there,
               std::vector<AuditStep>& steps) {
  if (part.host_read == 0.0 && part.bytes == 0) return;
  AuditStep step;
  if (is_there) {
    step.is_split = true;
    step.there = part.device_read;
    step.hidden = part.hidden_seconds;
  } else if (Crosses(placement, part.rule)) {
    step.is_linked = true;
    step.there = part.kv_read;
    step.linked = part.device_read - part.kv_read;
  } else {
    step.host = part.host_read;
  }
  steps.push_back(step);
}

void AuditFfn(const Placement& placement, const Layer& layer,
              const LayerPlace& place, bool is_dense,
              std::vector<AuditStep>& steps) {
  AuditStep step;
  std::vector<bool> neurons(layer.neurons.frequency.size());
  for (const uint32_t neuron : place.neurons) neurons[neuron] = true;
  std::vector<bool> experts(layer.experts.experts.size());
  for (const uint32_t expert : place.experts) experts[expert] = true;
  const auto add = [&](bool is_there, Rule rule, double device, double host) {
    if (is_there) {
      step.is_split = true;
      step.there += device;
    } else if (Crosses(placement, rule)) {
      step.is_linked = true;
      step.linked += device;
    } else {
      step.host += host;
    }
  };
  const Neurons& all = layer.neurons;
  if (!is_dense) step.late = all.host_lead_seconds;
  for (size_t i = 0; i < neurons.size(); ++i) {
    const double fires = is_dense ? 1.0 : static_cast<double>(all.frequency[i]);
    double tested = fires * all.tested_per_fired;
    if (all.tested_per_fired == 0.0 || tested > 1.0) tested = 1.0;
    add(neurons[i], all.rule,
        tested * all.device.tested + fires * all.device.rest,
        tested * all.host.tested + fires * all.host.rest);
  }
  for (size_t i = 0; i < experts.size(); ++i) {
    const Expert& expert = layer.experts.experts[i];
    const auto times = static_cast<double>(expert.frequency);
    add(experts[i], layer.experts.rule, times * expert.device_read,
        times * expert.host_read);
  }
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
    AuditPart(placement, layer.attention, place.attention, steps);
    if (!is_dense) {
      AuditPart(placement, layer.predictor, place.predictor, steps);
    }
    AuditPart(placement, layer.matrices, place.matrices, steps);
    AuditFfn(placement, layer, place, is_dense, steps);
  }
  AuditPart(placement, problem.head, placement.head, steps);
  return steps;
}

double AuditStepSeconds(const Hardware& hardware, const AuditStep& step) {
  const double host = step.host / hardware.host_rate;
  if (!step.is_split && !step.is_linked) return host;
  const double device =
      hardware.launch_seconds + step.there / hardware.device_rate;
  if (!step.is_linked) {
    return hardware.sync_seconds - step.hidden +
           std::max(device, host + step.late);
  }
  const double link = std::min(hardware.up_rate, hardware.bus_rate);
  return hardware.sync_seconds + device + hardware.copy_seconds +
         step.linked / link;
}

}  // namespace

double AuditSeconds(const Problem& problem, const Placement& placement) {
  double seconds = problem.fixed_seconds;
  for (const AuditStep& step : AuditSteps(problem, placement)) {
    seconds += AuditStepSeconds(problem.hardware, step);
  }
  return seconds;
}

}  // namespace thermocline::planner
