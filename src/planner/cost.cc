#include "planner/cost.h"

#include "base/check.h"

namespace thermocline::planner {
namespace {

// What an FFN's neurons or experts read per token, by where they lie.
struct FfnReads {
  bool exists = false;
  bool is_there = false;    // any of them
  bool has_absent = false;  // any not there
  bool may_cross = false;
  double host_lead_seconds = 0.0;
  double device = 0.0;         // by the device, of those there
  double host = 0.0;           // by the host, of the others
  double all_host = 0.0;       // by the host, were nothing there
  double absent_device = 0.0;  // by the device, were they there, of the others
};

void AddNeurons(const Neurons& neurons, const LayerPlace& place, bool is_dense,
                FfnReads& reads) {
  size_t next = 0;
  for (size_t i = 0; i < neurons.count(); ++i) {
    const float fires = is_dense ? 1.0f : neurons.frequency[i];
    const bool is_there =
        next < place.neurons.size() && place.neurons[next] == i;
    const double host = neurons.Expected(neurons.host, fires);
    const double device = neurons.Expected(neurons.device, fires);
    reads.all_host += host;
    if (is_there) {
      ++next;
      reads.device += device;
    } else {
      reads.has_absent = true;
      reads.host += host;
      reads.absent_device += device;
    }
  }
  TC_CHECK(next == place.neurons.size());
}

void AddExperts(const Experts& experts, const LayerPlace& place,
                FfnReads& reads) {
  size_t next = 0;
  for (size_t i = 0; i < experts.experts.size(); ++i) {
    const Expert& expert = experts.experts[i];
    const auto chosen = static_cast<double>(expert.frequency);
    const bool is_there =
        next < place.experts.size() && place.experts[next] == i;
    reads.all_host += chosen * expert.host_read;
    if (is_there) {
      ++next;
      reads.device += chosen * expert.device_read;
    } else {
      reads.has_absent = true;
      reads.host += chosen * expert.host_read;
      reads.absent_device += chosen * expert.device_read;
    }
  }
  TC_CHECK(next == place.experts.size());
}

FfnReads ReadsOf(const Layer& layer, const LayerPlace& place, bool is_dense) {
  FfnReads reads;
  reads.exists = layer.neurons.count() > 0 || !layer.experts.experts.empty();
  reads.is_there = !place.neurons.empty() || !place.experts.empty();
  reads.host_lead_seconds = is_dense ? 0.0 : layer.neurons.host_lead_seconds;
  reads.may_cross =
      layer.neurons.rule != Rule::kHost || layer.experts.rule != Rule::kHost;
  AddNeurons(layer.neurons, place, is_dense, reads);
  AddExperts(layer.experts, place, reads);
  return reads;
}

uint64_t LayerBytes(const Layer& layer, const LayerPlace& place,
                    Scheme scheme) {
  uint64_t bytes = NeuronBytes(layer.neurons, place.neurons.size());
  if (place.attention) {
    bytes += InPieces(layer.attention.bytes);
  } else if (ReadsOverLink(scheme) && layer.attention.rule != Rule::kHost) {
    bytes += InPieces(layer.attention.kv_bytes);
  }
  if (place.predictor) bytes += InPieces(layer.predictor.bytes);
  if (place.matrices) bytes += InPieces(layer.matrices.bytes);
  for (const uint32_t expert : place.experts) {
    bytes += InPieces(layer.experts.experts[expert].bytes);
  }
  return bytes;
}

// Walks a placement's steps in the order of a token.
class Predictor {
 public:
  Predictor(const Problem& problem, const Placement& placement)
      : problem_(problem),
        hardware_(problem.hardware),
        placement_(placement),
        is_dense_(placement.scheme == Scheme::kDense ||
                  placement.scheme == Scheme::kStream),
        crosses_(ReadsOverLink(placement.scheme)) {
    TC_CHECK(placement.layers.size() == problem.layers.size());
  }

  Cost Predict() {
    cost_.layers.resize(problem_.layers.size());
    for (size_t i = 0; i < problem_.layers.size(); ++i) AddLayer(i);
    Run(problem_.head, placement_.head, cost_.head);
    Sum();
    return std::move(cost_);
  }

 private:
  void AddLayer(size_t layer_idx) {
    const Layer& layer = problem_.layers[layer_idx];
    const LayerPlace& place = placement_.layers[layer_idx];
    LayerCost& cost = cost_.layers[layer_idx];
    cost.device_bytes = LayerBytes(layer, place, placement_.scheme);
    Run(layer.attention, place.attention, cost.attention);
    if (!is_dense_) Run(layer.predictor, place.predictor, cost.predictor);
    if (layer.matrices.exists()) {
      Run(layer.matrices, place.matrices, cost.ffn);
      cost.share_there = place.matrices ? 1.0 : 0.0;
      return;
    }
    const FfnReads reads = ReadsOf(layer, place, is_dense_);
    RunFfn(reads, cost.ffn);
    if (reads.all_host > 0.0) {
      cost.share_there = 1.0 - reads.host / reads.all_host;
    }
  }

  void Run(const Part& part, bool is_there, StepCost& step) {
    if (!part.exists()) return;
    if (!is_there && crosses_ && part.rule != Rule::kHost) {
      OnDevice(part.kv_read, step);
      OverLink(part.device_read - part.kv_read, step);
      return;
    }
    step.seconds = PartSeconds(hardware_, is_there, part);
    if (is_there) {
      OnDevice(part.device_read, step);
    } else {
      OnHost(part.host_read, step);
    }
  }

  void RunFfn(const FfnReads& reads, StepCost& step) {
    if (!reads.exists) return;
    if (crosses_ && reads.may_cross && reads.has_absent) {
      OnDevice(reads.device, step);
      OverLink(reads.absent_device, step);
      return;
    }
    step.seconds = FfnSeconds(hardware_, reads.is_there, reads.device,
                              reads.host, reads.host_lead_seconds);
    if (reads.is_there) OnDevice(reads.device, step);
    OnHost(reads.host, step);
  }

  void OnDevice(double bytes, StepCost& step) const {
    step.traffic.device += bytes;
    step.device_seconds =
        bytes / hardware_.device_rate + hardware_.launch_seconds;
  }
  void OnHost(double bytes, StepCost& step) const {
    step.traffic.host += bytes;
    step.host_seconds = bytes / hardware_.host_rate;
  }
  // Of a step whose other bytes are OnDevice.
  void OverLink(double bytes, StepCost& step) const {
    step.traffic.up += bytes;
    step.link_seconds =
        bytes / std::min(hardware_.up_rate, hardware_.bus_rate) +
        hardware_.copy_seconds;
    step.seconds =
        step.device_seconds + step.link_seconds + hardware_.sync_seconds;
  }

  void Sum() {
    cost_.seconds = problem_.fixed_seconds + cost_.head.seconds;
    cost_.traffic = cost_.head.traffic;
    if (placement_.head) cost_.device_bytes = InPieces(problem_.head.bytes);
    for (const LayerCost& layer : cost_.layers) {
      cost_.seconds += layer.seconds();
      cost_.device_bytes += layer.device_bytes;
      cost_.traffic += layer.attention.traffic;
      cost_.traffic += layer.predictor.traffic;
      cost_.traffic += layer.ffn.traffic;
    }
  }

  const Problem& problem_;
  const Hardware& hardware_;
  const Placement& placement_;
  bool is_dense_, crosses_;
  Cost cost_;
};

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  device += other.device;
  host += other.host;
  up += other.up;
  return *this;
}

Cost PredictCost(const Problem& problem, const Placement& placement) {
  return Predictor(problem, placement).Predict();
}

uint64_t DeviceBytes(const Problem& problem, const Placement& placement) {
  uint64_t bytes = placement.head ? InPieces(problem.head.bytes) : 0;
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    bytes +=
        LayerBytes(problem.layers[i], placement.layers[i], placement.scheme);
  }
  return bytes;
}

Placement AllOnHost(const Problem& problem) {
  Placement placement;
  placement.layers.resize(problem.layers.size());
  return placement;
}

}  // namespace thermocline::planner
