#include "planner/cost.h"

#include "base/check.h"

namespace thermocline::planner {
namespace {

// What an FFN's neurons or experts read per token, by where they lie.
struct FfnReads {
  bool exists = false;
  bool is_there = false;  // any of them
  double device = 0.0;    // by the device, of those there
  double host = 0.0;      // by the host, of the others
  double all_host = 0.0;  // by the host, were nothing there
  // Of those not there: were they on the device, and how many are asked for.
  double absent_device = 0.0;
  double absent_count = 0.0;
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
      reads.host += host;
      reads.absent_device += device;
      reads.absent_count += neurons.TestedShare(fires);
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
      reads.host += chosen * expert.host_read;
      reads.absent_device += chosen * expert.device_read;
      reads.absent_count += chosen;
    }
  }
  TC_CHECK(next == place.experts.size());
}

FfnReads ReadsOf(const Layer& layer, const LayerPlace& place, bool is_dense) {
  FfnReads reads;
  reads.exists = layer.neurons.count() > 0 || !layer.experts.experts.empty();
  reads.is_there = !place.neurons.empty() || !place.experts.empty();
  AddNeurons(layer.neurons, place, is_dense, reads);
  AddExperts(layer.experts, place, reads);
  return reads;
}

uint64_t LayerBytes(const Layer& layer, const LayerPlace& place) {
  uint64_t bytes = NeuronBytes(layer.neurons, place.neurons.size());
  if (place.attention) bytes += InPieces(layer.attention.bytes);
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
        is_stepped_(placement.scheme == Scheme::kSparse ||
                    placement.scheme == Scheme::kDense) {
    TC_CHECK(placement.layers.size() == problem.layers.size());
  }

  Cost Predict() {
    cost_.layers.resize(problem_.layers.size());
    for (size_t i = 0; i < problem_.layers.size(); ++i) AddLayer(i);
    Run(problem_.head, placement_.head, cost_.head);
    if (placement_.scheme == Scheme::kStream) LoadAhead();
    Sum();
    return std::move(cost_);
  }

 private:
  void AddLayer(size_t layer_idx) {
    const Layer& layer = problem_.layers[layer_idx];
    const LayerPlace& place = placement_.layers[layer_idx];
    LayerCost& cost = cost_.layers[layer_idx];
    cost.device_bytes = LayerBytes(layer, place);
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
    if (is_stepped_) {
      step.seconds = PartSeconds(hardware_, is_there, part);
      if (is_there) {
        OnDevice(part.device_read, step);
      } else {
        OnHost(part.host_read, step);
      }
      return;
    }
    OnDevice(part.device_read, step);
    if (!is_there) OverLink(part.host_read, 1.0, step);
    Crossed(step);
  }

  void RunFfn(const FfnReads& reads, StepCost& step) {
    if (!reads.exists) return;
    if (is_stepped_) {
      step.seconds =
          FfnSeconds(hardware_, reads.is_there, reads.device, reads.host);
      if (reads.is_there) OnDevice(reads.device, step);
      OnHost(reads.host, step);
      return;
    }
    OnDevice(reads.device + reads.absent_device, step);
    const bool at_once = placement_.scheme == Scheme::kStream;
    if (reads.absent_count > 0.0) {
      OverLink(reads.host, at_once ? 1.0 : reads.absent_count, step);
      // Which ones is known here first.
      if (!at_once) step.seconds += hardware_.sync_seconds;
    }
    Crossed(step);
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
  // The host's threads rest meanwhile: the bus is the link's.
  void OverLink(double bytes, double num_copies, StepCost& step) const {
    step.traffic.up += bytes;
    step.link_seconds =
        bytes / std::min(hardware_.up_rate, hardware_.bus_rate) +
        num_copies * hardware_.copy_seconds;
  }

  // A step of the device that computes everything. What is loaded ahead is
  // known when all steps are.
  void Crossed(StepCost& step) {
    if (placement_.scheme == Scheme::kStream) {
      in_turn_.push_back(&step);
    } else {
      step.seconds += std::max(step.device_seconds, step.link_seconds);
    }
  }

  // Behind the last step comes the next token's first.
  void LoadAhead() {
    for (size_t i = 0; i < in_turn_.size(); ++i) {
      const StepCost& next = *in_turn_[(i + 1) % in_turn_.size()];
      in_turn_[i]->seconds =
          std::max(in_turn_[i]->device_seconds, next.link_seconds);
    }
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
  bool is_dense_, is_stepped_;
  std::vector<StepCost*> in_turn_;
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
    bytes += LayerBytes(problem.layers[i], placement.layers[i]);
  }
  return bytes;
}

Placement AllOnHost(const Problem& problem) {
  Placement placement;
  placement.layers.resize(problem.layers.size());
  return placement;
}

}  // namespace thermocline::planner
