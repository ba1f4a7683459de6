#include "cli/model_problem.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/remedy.h"
#include "base/units.h"
#include "engine/device/placement_parts.h"
#include "engine/kv/device_kv.h"
#include "engine/kv/kv_layout.h"

namespace thermocline::cli {
namespace {

using engine::Demand;
using engine::FfnForm;
using engine::FfnMode;
using planner::Rule;

// Operations that a part on the device enqueues, on average.
constexpr double kLaunchesPerPart = 2.5;
// Share of the neurons that fire in models of the ReLU family, by what papers
// say, where nobody has counted.
constexpr float kUsualDensity = 0.15f;

Rule RuleOf(Demand demand, bool can_be_there) {
  if (!can_be_there || demand == Demand::kHost) return Rule::kHost;
  return demand == Demand::kDevice ? Rule::kDevice : Rule::kOpen;
}

double NumBytes(const TensorView& view) {
  return static_cast<double>(view.num_bytes());
}

class ProblemMaker {
 public:
  ProblemMaker(const engine::PlacementRequest& request, engine::Demands demands,
               const planner::Hardware& hardware, const Activity& activity)
      : request_(request),
        hardware_(hardware),
        activity_(activity),
        config_(request.model->config()),
        demands_(std::move(demands)),
        parts_(engine::PlanDeviceParts(*request.model, request.choice,
                                       *request.layout, request.context,
                                       demands_)) {}

  Result<planner::Problem> Make() {
    planner::Problem problem = {.hardware = hardware_};
    engine::LaneNeed need = engine::DeviceKvNeed();
    for (size_t i = 0; i < config_.num_layers; ++i) {
      planner::Layer& layer = problem.layers.emplace_back();
      layer.attention = AttentionOf(i);
      layer.predictor = PredictorOf(i);
      AddFfn(i, layer);
      const engine::LayerParts& parts = parts_.layers[i];
      if (parts.attention) need.Cover(parts.attention->need);
      if (parts.predictor) need.Cover(parts.predictor->need);
      need.Cover(parts.ffn_need);
    }
    problem.head = HeadOf(need);
    problem.fixed_seconds = RouterBytes() / hardware_.host_rate;
    const uint64_t lane = planner::InPieces(need.device_bytes);
    const uint64_t least = lane + LeastBytes(problem);
    if (least > request_.vram) {
      return Fail(
          ErrorCode::kResourceExhausted, Advice{Remedy::kVram},
          "a budget of {} of VRAM: the least that holds anything is {}, {} of "
          "it for activations",
          FormatBytes(request_.vram), FormatBytes(least), FormatBytes(lane));
    }
    problem.budget = request_.vram - lane;
    return problem;
  }

 private:
  // Of the smallest part that may be on the device; 0: none may.
  static uint64_t LeastBytes(const planner::Problem& problem) {
    uint64_t least = UINT64_MAX;
    const auto take = [&](Rule rule, uint64_t bytes) {
      if (rule != Rule::kHost && bytes > 0) least = std::min(least, bytes);
    };
    for (const planner::Layer& layer : problem.layers) {
      for (const planner::Part* part :
           {&layer.attention, &layer.predictor, &layer.matrices}) {
        take(part->rule, planner::InPieces(part->bytes));
      }
      if (layer.neurons.count() > 0) {
        take(layer.neurons.rule, planner::NeuronBytes(layer.neurons, 1));
      }
      for (const planner::Expert& expert : layer.experts.experts) {
        take(layer.experts.rule, planner::InPieces(expert.bytes));
      }
    }
    take(problem.head.rule, planner::InPieces(problem.head.bytes));
    return least == UINT64_MAX ? 0 : least;
  }

  const model::LayerWeights& weights(size_t layer_idx) const {
    return request_.model->weights().layers[layer_idx];
  }

  planner::Part AttentionOf(size_t layer_idx) const {
    const model::AttentionWeights& attention = weights(layer_idx).attention;
    const auto& there = parts_.layers[layer_idx].attention;
    const std::array<size_t, 1> layers = {layer_idx};
    const uint64_t kv =
        engine::DeviceKvBytes(config_, layers, request_.num_kv_pages);
    const double kv_read =
        static_cast<double>(engine::DeviceKvBytes(
            config_, layers, engine::KvPagesFor(request_.context))) /
        2;
    planner::Part part = {
        .rule = RuleOf(demands_.layers[layer_idx].attention, there.has_value()),
        .host_read = NumBytes(attention.q) + NumBytes(attention.k) +
                     NumBytes(attention.v) + NumBytes(attention.out) + kv_read};
    if (there) {
      part.bytes = there->num_bytes + kv;
      part.device_read = static_cast<double>(there->num_bytes) + kv_read;
      part.kv_bytes = kv;
      part.kv_read = kv_read;
    }
    return part;
  }

  planner::Part PredictorOf(size_t layer_idx) const {
    const model::PredictorWeights& predictor = weights(layer_idx).predictor;
    const auto& there = parts_.layers[layer_idx].predictor;
    planner::Part part;
    const bool is_asked =
        request_.choice.mode == FfnMode::kFast &&
        request_.choice.predictor == engine::PredictorChoice::kTrained &&
        static_cast<bool>(predictor.up);
    if (!is_asked) return part;
    part.rule = RuleOf(demands_.layers[layer_idx].predictor, there.has_value());
    const double num_used = NumExpertsUsed(layer_idx);
    part.host_read =
        num_used * (NumBytes(predictor.up) +
                    NumBytes(predictor.down) * ShareOfExpert(layer_idx));
    if (there) {
      part.bytes = there->num_bytes;
      part.device_read = static_cast<double>(there->num_bytes);
    }
    if (BeginsNeurons(layer_idx)) part.hidden_seconds = hardware_.sync_seconds;
    return part;
  }

  // A mixture's predictor is asked again for each expert in use, of its neurons
  // alone. (predictor/expert_parts.h)
  double NumExpertsUsed(size_t layer_idx) const {
    const model::FfnSpec& spec = config_.layers[layer_idx].ffn;
    return spec.num_experts == 0 ? 1.0
                                 : static_cast<double>(spec.num_experts_used);
  }
  double ShareOfExpert(size_t layer_idx) const {
    const model::FfnSpec& spec = config_.layers[layer_idx].ffn;
    return spec.num_experts == 0 ? 1.0
                                 : 1.0 / static_cast<double>(spec.num_experts);
  }

  // Whether the predictor, on the device, has what the layer's neurons read.
  bool BeginsNeurons(size_t layer_idx) const {
    const model::PredictorConfig& predictor = config_.predictor;
    const engine::LayerParts& there = parts_.layers[layer_idx];
    return predictor.input == model::PredictorInput::kNormed &&
           (predictor.lookahead == 0 || layer_idx == 0) &&
           there.predictor.has_value() && there.ffn == FfnForm::kNeurons;
  }

  void AddFfn(size_t layer_idx, planner::Layer& layer) const {
    const model::FfnSpec& spec = config_.layers[layer_idx].ffn;
    if (spec.num_experts > 0) {
      layer.experts = ExpertsOf(layer_idx);
    } else if (parts_.layers[layer_idx].ffn == FfnForm::kMatrices ||
               (request_.choice.mode == FfnMode::kDense &&
                parts_.layers[layer_idx].ffn == FfnForm::kHost &&
                !weights(layer_idx).ffn.bundled)) {
      layer.matrices = MatricesOf(layer_idx);
    } else {
      layer.neurons = NeuronsOf(layer_idx);
    }
  }

  planner::Part MatricesOf(size_t layer_idx) const {
    const model::FfnWeights& ffn = weights(layer_idx).ffn;
    const engine::LayerParts& there = parts_.layers[layer_idx];
    const bool can_be = there.ffn == FfnForm::kMatrices;
    const auto bytes = static_cast<double>(there.matrix_bytes);
    return {.rule = RuleOf(demands_.layers[layer_idx].ffn, can_be),
            .bytes = there.matrix_bytes,
            .host_read = NumBytes(ffn.gate) + NumBytes(ffn.up) +
                         NumBytes(ffn.down ? ffn.down : ffn.down_t),
            .device_read = bytes};
  }

  // Routers are the host's, and read for every token.
  double RouterBytes() const {
    double bytes = 0.0;
    for (size_t i = 0; i < config_.num_layers; ++i) {
      bytes += NumBytes(weights(i).ffn.router);
    }
    return bytes;
  }

  planner::Neurons NeuronsOf(size_t layer_idx) const {
    const model::FfnWeights& ffn = weights(layer_idx).ffn;
    const engine::LayerParts& there = parts_.layers[layer_idx];
    const bool can_be = there.ffn == FfnForm::kNeurons;
    planner::Neurons neurons = {
        .rule = RuleOf(demands_.layers[layer_idx].ffn, can_be),
        .record_bytes = there.record_bytes,
        .other_bytes = there.other_bytes,
        .host = HostRead(ffn),
        .device = can_be ? DeviceRead(ffn) : planner::NeuronRead(),
        .frequency = FrequenciesOf(layer_idx)};
    const bool has_predictor = PredictorOf(layer_idx).exists();
    if (has_predictor && BeginsNeurons(layer_idx)) {
      neurons.host_lead_seconds = hardware_.answer_seconds;
    }
    neurons.tested_per_fired =
        has_predictor ? activity_.candidates_per_fired : 0.0;
    return neurons;
  }

  // Of one neuron, whose rows `of` tells the bytes of.
  template <typename Of>
  static planner::NeuronRead ReadOf(const model::FfnMatrices& ffn,
                                    const Of& of) {
    if (!ffn.gate) return {of(ffn.up), of(ffn.down_t)};
    return {of(ffn.gate), of(ffn.up) + of(ffn.down_t)};
  }
  static planner::NeuronRead HostRead(const model::FfnMatrices& ffn) {
    return ReadOf(ffn, [](const TensorView& view) {
      return view ? static_cast<double>(view.row_bytes()) : 0.0;
    });
  }
  planner::NeuronRead DeviceRead(const model::FfnMatrices& ffn) const {
    return ReadOf(ffn, [&](const TensorView& view) {
      return view ? static_cast<double>(
                        request_.layout->RowBytes(view.dtype, view.shape.ne[0]))
                  : 0.0;
    });
  }

  std::vector<float> FrequenciesOf(size_t layer_idx) const {
    const size_t width = config_.layers[layer_idx].ffn.width;
    if (request_.choice.mode == FfnMode::kDense) {
      return std::vector<float>(width, 1.0f);
    }
    if (activity_.frequencies.empty()) {
      return std::vector<float>(width, kUsualDensity);
    }
    // A profile is as wide as the widest layer.
    const std::vector<float>& all = activity_.frequencies[layer_idx];
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(width)};
  }

  planner::Experts ExpertsOf(size_t layer_idx) const {
    const model::FfnSpec& spec = config_.layers[layer_idx].ffn;
    const engine::LayerParts& there = parts_.layers[layer_idx];
    const bool can_be = there.ffn == FfnForm::kExperts;
    planner::Experts experts = {
        .rule = RuleOf(demands_.layers[layer_idx].ffn, can_be)};
    for (size_t e = 0; e < spec.num_experts; ++e) {
      const model::FfnMatrices& matrices = weights(layer_idx).ffn.experts[e];
      planner::Expert expert = {
          .bytes = can_be ? there.expert_bytes[e] : 0,
          .host_read =
              NumBytes(matrices.gate) + NumBytes(matrices.up) +
              NumBytes(matrices.down ? matrices.down : matrices.down_t),
          .frequency = ExpertFrequency(layer_idx, e)};
      expert.device_read = static_cast<double>(expert.bytes);
      if (request_.choice.mode != FfnMode::kDense && matrices.down_t) {
        const planner::NeuronRead counts = CountsOf(layer_idx, e);
        const auto read = [&](const planner::NeuronRead& of) {
          return counts.tested * of.tested + counts.rest * of.rest;
        };
        expert.host_read = read(HostRead(matrices));
        if (can_be) expert.device_read = read(DeviceRead(matrices));
      }
      experts.experts.push_back(expert);
    }
    return experts;
  }

  // How many neurons of an expert that is chosen are tested, and fire.
  planner::NeuronRead CountsOf(size_t layer_idx, size_t expert_idx) const {
    const size_t width = config_.layers[layer_idx].ffn.width;
    const auto all = static_cast<double>(width);
    double fire = all * static_cast<double>(kUsualDensity);
    if (!activity_.frequencies.empty()) {
      const std::vector<float>& shares = activity_.frequencies[layer_idx];
      const auto mine =
          shares.begin() + static_cast<std::ptrdiff_t>(expert_idx * width);
      const double chosen =
          static_cast<double>(ExpertFrequency(layer_idx, expert_idx));
      const double sum =
          std::accumulate(mine, mine + static_cast<std::ptrdiff_t>(width), 0.0);
      fire = chosen > 0.0 ? std::min(all, sum / chosen) : 0.0;
    }
    const bool has_predictor = PredictorOf(layer_idx).exists();
    return {.tested = has_predictor
                          ? std::min(all, activity_.candidates_per_fired * fire)
                          : all,
            .rest = fire};
  }

  // As often as its neurons fire beside those of the others.
  float ExpertFrequency(size_t layer_idx, size_t expert_idx) const {
    const model::FfnSpec& spec = config_.layers[layer_idx].ffn;
    const auto mean = static_cast<float>(NumExpertsUsed(layer_idx) *
                                         ShareOfExpert(layer_idx));
    if (activity_.frequencies.empty()) return mean;
    const std::vector<float>& all = activity_.frequencies[layer_idx];
    float sum = 0.0f;
    float mine = 0.0f;
    for (size_t i = 0; i < all.size(); ++i) {
      sum += all[i];
      if (i / spec.width == expert_idx) mine += all[i];
    }
    if (sum <= 0.0f) return mean;
    return std::min(1.0f,
                    mine / sum * static_cast<float>(spec.num_experts_used));
  }

  planner::Part HeadOf(engine::LaneNeed& need) const {
    planner::Part part = {
        .rule = RuleOf(demands_.head, parts_.head.has_value()),
        .host_read = NumBytes(request_.model->weights().head)};
    if (parts_.head) {
      part.bytes = parts_.head->num_bytes;
      part.device_read = static_cast<double>(parts_.head->num_bytes);
      need.Cover(parts_.head->need);
    }
    return part;
  }

  const engine::PlacementRequest& request_;
  const planner::Hardware& hardware_;
  const Activity& activity_;
  const model::Config& config_;
  engine::Demands demands_;
  engine::DeviceParts parts_;
};

}  // namespace

planner::Hardware HardwareOf(const device::Machine& machine,
                             const model::Config& config) {
  const double row_bytes = static_cast<double>(config.width) * sizeof(float);
  const double answer = machine.copy_latency + machine.sync_latency +
                        row_bytes / machine.down_rate;
  return {.device_rate = machine.device_rate,
          .host_rate = std::min(machine.pool_rate, machine.bus_rate),
          .bus_rate = machine.bus_rate,
          .up_rate = machine.up_rate,
          .down_rate = machine.down_rate,
          .copy_seconds = machine.copy_latency,
          .launch_seconds = kLaunchesPerPart * machine.launch_latency,
          .sync_seconds =
              answer + machine.copy_latency + row_bytes / machine.up_rate,
          .answer_seconds = answer};
}

Result<planner::Problem> ProblemOf(const engine::PlacementRequest& request,
                                   const planner::Hardware& hardware,
                                   const Activity& activity) {
  TC_ASSIGN_OR_RETURN(engine::Demands of_tensors,
                      engine::DemandsOfTensors(*request.model, request.rules));
  return ProblemMaker(request,
                      engine::Complete(request.model->config(), request.rules,
                                       std::move(of_tensors)),
                      hardware, activity)
      .Make();
}

engine::ListedParts PartsOf(const planner::Placement& placement) {
  engine::ListedParts parts = {
      .head = placement.head,
      .rest_over_link = planner::ReadsOverLink(placement.scheme)};
  for (const planner::LayerPlace& layer : placement.layers) {
    parts.layers.push_back({.attention = layer.attention,
                            .predictor = layer.predictor,
                            .matrices = layer.matrices,
                            .resident = layer.neurons,
                            .experts = layer.experts});
  }
  return parts;
}

}  // namespace thermocline::cli
