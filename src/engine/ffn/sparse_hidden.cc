#include "engine/ffn/sparse_hidden.h"

#include <algorithm>

namespace thermocline::engine {
namespace {

// Places that a thread takes at a time: rows that fit its cache while the
// tokens of a batch pass by, enough of them to hide the taking.
constexpr size_t kBlockBytes = 128 << 10;
constexpr size_t kMaxPlaces = 256;
size_t PlacesPerBlock(const TensorView& up) {
  const size_t row_bytes = std::max<size_t>(up.row_bytes(), 1);
  return std::clamp<size_t>(kBlockBytes / row_bytes, 16, kMaxPlaces);
}

}  // namespace

// The candidates of one token among a block of places.
struct SparseHidden::Picked {
  size_t count = 0;
  uint32_t places[kMaxPlaces];
  uint32_t neurons[kMaxPlaces];
};

void SparseHidden::Run(size_t num_tokens) const {
  const bool any_rounded = !IsFloat(weights_->up.dtype) ||
                           (config_->gated && !IsFloat(weights_->gate.dtype));
  if (any_rounded) RoundRows(*compute_, scratch_->normed, num_tokens);
  compute_->pool->ParallelFor(
      weights_->up.shape.num_rows(), PlacesPerBlock(weights_->up),
      [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = 0; t < num_tokens; ++t) RunPlaces(begin, end, t);
      });
  compute_->pool->ParallelFor(
      num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) CollectFired(t);
      });
}

void SparseHidden::PickIn(size_t begin, size_t end, size_t token_idx,
                          Picked& picked) const {
  const predictor::NeuronSet candidates =
      scratch_->sparse.candidates(layer_idx_, token_idx);
  const auto pick = [&picked](size_t place, size_t neuron) {
    picked.places[picked.count] = static_cast<uint32_t>(place);
    picked.neurons[picked.count++] = static_cast<uint32_t>(neuron);
  };
  if (order_.empty()) {
    candidates.ForEachIn(begin, end, [&](size_t i) { pick(i, i); });
    return;
  }
  for (size_t place = begin; place < end; ++place) {
    if (candidates.Has(order_[place])) pick(place, order_[place]);
  }
}

// Leaves h of the candidates at their places of scratch.up.
void SparseHidden::RunPlaces(size_t begin, size_t end, size_t token_idx) const {
  Picked picked;
  PickIn(begin, end, token_idx, picked);
  float* hidden = scratch_->up.row(token_idx);
  float gate[kMaxPlaces];
  float up[kMaxPlaces];
  if (config_->gated) {
    MultiplyPicked(weights_->gate, weights_->gate_bias, token_idx, picked,
                   gate);
    DropClosed(gate, hidden, picked);
  }
  MultiplyPicked(weights_->up, weights_->up_bias, token_idx, picked, up);
  compute_->kernels->activate(config_->activation, config_->threshold,
                              config_->gated ? gate : nullptr, up, picked.count,
                              up);
  for (size_t i = 0; i < picked.count; ++i) hidden[picked.places[i]] = up[i];
}

// Takes those out of `picked` and `gate` whose gate lets nothing through. NaN
// stays.
void SparseHidden::DropClosed(float* gate, float* hidden,
                              Picked& picked) const {
  const Activation of_gate = config_->activation == Activation::kDRelu
                                 ? Activation::kRelu
                                 : config_->activation;
  float opening[kMaxPlaces];
  compute_->kernels->activate(of_gate, config_->threshold, nullptr, gate,
                              picked.count, opening);
  size_t num_open = 0;
  for (size_t i = 0; i < picked.count; ++i) {
    if (opening[i] == 0.0f) {
      hidden[picked.places[i]] = 0.0f;
      continue;
    }
    gate[num_open] = gate[i];
    picked.places[num_open] = picked.places[i];
    picked.neurons[num_open++] = picked.neurons[i];
  }
  picked.count = num_open;
}

// out[i] = the picked row i times the token's x, + bias. Neighbours in the
// matrix go in one product.
void SparseHidden::MultiplyPicked(const TensorView& weight,
                                  const TensorView& bias, size_t token_idx,
                                  const Picked& picked, float* out) const {
  const uint32_t* neurons = picked.neurons;
  for (size_t i = 0; i < picked.count;) {
    size_t end = i + 1;
    while (end < picked.count && neurons[end] == neurons[end - 1] + 1) ++end;
    compute_->kernels->matmul(weight.dtype)(
        {.weights = weight.row(neurons[i]),
         .row_bytes = weight.row_bytes(),
         .num_rows = end - i,
         .n = weight.shape.ne[0],
         .x = InputFor(*compute_, weight.dtype, scratch_->normed, token_idx),
         .x_stride_bytes = 0,
         .num_tokens = 1,
         .out = out + i,
         .out_stride = end - i});
    i = end;
  }
  if (!bias) return;
  const float* biases = reinterpret_cast<const float*>(bias.data);
  for (size_t i = 0; i < picked.count; ++i) out[i] += biases[neurons[i]];
}

// Moves what fired to the front of the token's row; places ascend, so nothing
// is overwritten before it is read.
void SparseHidden::CollectFired(size_t token_idx) const {
  const SparseScratch& sparse = scratch_->sparse;
  const predictor::NeuronSet candidates =
      sparse.candidates(layer_idx_, token_idx);
  float* hidden = scratch_->up.row(token_idx);
  uint32_t* fired = sparse.fired + token_idx * sparse.num_neurons;
  uint32_t count = 0;
  const auto collect = [&](size_t place, size_t neuron) {
    if (hidden[place] == 0.0f) return;
    hidden[count] = hidden[place];
    fired[count++] = static_cast<uint32_t>(neuron);
  };
  if (order_.empty()) {
    candidates.ForEachIn(0, sparse.num_neurons,
                         [&](size_t i) { collect(i, i); });
  } else {
    for (size_t place = 0; place < order_.size(); ++place) {
      if (candidates.Has(order_[place])) collect(place, order_[place]);
    }
  }
  sparse.num_fired[token_idx] = count;
}

}  // namespace thermocline::engine
