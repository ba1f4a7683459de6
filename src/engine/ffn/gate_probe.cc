#include "engine/ffn/gate_probe.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "kernels/activation_row.h"

namespace thermocline::engine {
namespace {

constexpr size_t kInputAlignment = 64;

size_t FloatBytes(size_t width) {
  return RoundUp(width * sizeof(float), kInputAlignment);
}

void AddBias(const TensorView& bias, std::span<const uint32_t> ids,
             std::span<float> values) {
  if (!bias) return;
  const auto* biases = reinterpret_cast<const float*>(bias.data);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] += biases[ids.empty() ? i : ids[i]];
  }
}

}  // namespace

Result<std::unique_ptr<GateProbe>> GateProbe::Create(
    std::shared_ptr<const model::Model> model, kernels::Isa isa,
    std::vector<float> rest_below) {
  const model::Config& config = model->config();
  TC_CHECK(rest_below.empty() ||
           std::cmp_equal(rest_below.size(), config.num_layers));
  // Widths that do not divide into blocks have no weights in blocks.
  const size_t width = config.width;
  TC_ASSIGN_OR_RETURN(
      auto input, os::AlignedBuffer::Allocate(
                      FloatBytes(width) + kernels::ActivationRowBytes(RoundUp(
                                              width, kInputAlignment))));
  return std::unique_ptr<GateProbe>(new GateProbe(
      std::move(model), isa, std::move(rest_below), std::move(input)));
}

GateProbe::GateProbe(std::shared_ptr<const model::Model> model,
                     kernels::Isa isa, std::vector<float> rest_below,
                     os::AlignedBuffer input)
    : model_(std::move(model)),
      kernels_(&kernels::KernelsFor(isa)),
      rest_below_(std::move(rest_below)),
      input_(std::move(input)),
      products_(MaxFfnWidth(model_->config())),
      opened_(products_.size()) {}

void GateProbe::Look(const FfnObservation& seen) {
  const size_t layer_idx = seen.layer_idx;
  const model::FfnSpec& spec = model_->config().layers[layer_idx].ffn;
  const auto num_neurons = static_cast<uint32_t>(spec.width);
  products_.resize(num_neurons);
  opened_.resize(num_neurons);
  const model::FfnWeights& weights = model_->weights().layers[layer_idx].ffn;
  const float rest_below = rest_below_.empty() ? 0.0f : rest_below_[layer_idx];
  open_.clear();
  fired_.clear();
  SetInput(seen.input);
  if (weights.experts.empty()) {
    LookAt(spec, weights, weights, rest_below, 0);
    return;
  }
  for (uint32_t e = 0; e < weights.experts.size(); ++e) {
    if (std::ranges::find(seen.experts, e) == seen.experts.end()) continue;
    LookAt(spec, weights.experts[e], weights, rest_below, e * num_neurons);
  }
}

void GateProbe::SetInput(std::span<const float> x) {
  std::ranges::copy(x, input_.as<float>(x.size()).data());
  if (x.size() % 32 != 0) return;
  kernels_->quantize_activations(x.data(), x.size(),
                                 input_.data() + FloatBytes(x.size()));
}

const std::byte* GateProbe::InputFor(DType dtype) const {
  if (IsFloat(dtype)) return input_.data();
  return input_.data() + FloatBytes(model_->config().width);
}

void GateProbe::LookAt(const model::FfnSpec& spec,
                       const model::FfnMatrices& matrices,
                       const model::FfnWeights& weights, float rest_below,
                       uint32_t first) {
  const bool gated = spec.gated;
  Test(spec, gated ? matrices.gate : matrices.up,
       gated ? weights.gate_bias : weights.up_bias, rest_below);
  if (gated) {
    MultiplyUp(matrices.up, weights.up_bias);
    kernels_->activate(spec.activation, spec.threshold, hidden_.data(),
                       opened_.data(), ids_.size(), hidden_.data());
  }
  for (size_t i = 0; i < ids_.size(); ++i) {
    open_.push_back(first + ids_[i]);
    if (hidden_[i] != 0.0f) fired_.push_back(first + ids_[i]);
  }
}

// Leaves the open neurons in ids_, and in hidden_ what the activation is to be
// given: gate products, or without a gate the activation itself.
void GateProbe::Test(const model::FfnSpec& spec, const TensorView& weight,
                     const TensorView& bias, float rest_below) {
  kernels_->matmul(weight.dtype)({.weights = weight.data,
                                  .row_bytes = weight.row_stride(),
                                  .num_rows = products_.size(),
                                  .n = weight.shape.ne[0],
                                  .x = InputFor(weight.dtype),
                                  .x_stride_bytes = 0,
                                  .num_tokens = 1,
                                  .out = products_.data(),
                                  .out_stride = products_.size()});
  AddBias(bias, {}, products_);
  const Activation of_gate = spec.activation == Activation::kDRelu
                                 ? Activation::kRelu
                                 : spec.activation;
  kernels_->activate(of_gate, spec.threshold, nullptr, products_.data(),
                     products_.size(), opened_.data());
  ids_.clear();
  hidden_.clear();
  for (uint32_t i = 0; i < opened_.size(); ++i) {
    if (opened_[i] == 0.0f || std::abs(opened_[i]) < rest_below) continue;
    ids_.push_back(i);
    hidden_.push_back(spec.gated ? products_[i] : opened_[i]);
  }
}

// Leaves the products of the open neurons in opened_.
void GateProbe::MultiplyUp(const TensorView& weight, const TensorView& bias) {
  kernels_->dot_rows(weight.dtype)({.rows = weight.data,
                                    .row_bytes = weight.row_stride(),
                                    .ids = ids_.data(),
                                    .num_rows = ids_.size(),
                                    .n = weight.shape.ne[0],
                                    .x = InputFor(weight.dtype),
                                    .x_stride_bytes = 0,
                                    .num_tokens = 1,
                                    .out = opened_.data(),
                                    .out_stride = opened_.size()});
  AddBias(bias, ids_, std::span(opened_).first(ids_.size()));
}

}  // namespace thermocline::engine
