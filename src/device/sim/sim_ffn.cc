// The operations on sets of neurons.
#include <algorithm>
#include <cmath>
#include <vector>

#include "device/sim/sim_ops.h"

namespace thermocline::device {
namespace {

using kernels::DeviceSetWords;

bool IsInSet(const uint32_t* words, size_t i) {
  return (words[i / 32] >> (i % 32) & 1) != 0;
}

void AddToSet(uint32_t* words, size_t i) { words[i / 32] |= 1u << (i % 32); }

// The neurons of the union that have a slot, in ascending order.
struct SimList {
  std::vector<uint32_t> neurons;
  std::vector<uint32_t> slots;
  std::vector<uint8_t> rows;  // bit t: row t's set has it
};

uint8_t RowsWith(const kernels::SparseFfnArgs& args, size_t neuron) {
  unsigned rows = 0;
  for (size_t t = 0; t < args.num_tokens; ++t) {
    const bool is_in =
        args.sets == nullptr ||
        IsInSet(args.sets + t * DeviceSetWords(args.num_neurons), neuron);
    rows |= static_cast<unsigned>(is_in) << t;
  }
  return static_cast<uint8_t>(rows);
}

Result<SimList> ListOf(const kernels::SparseFfnArgs& args) {
  SimList list;
  for (uint32_t i = 0; i < args.num_neurons; ++i) {
    const int32_t slot = args.slot_of[i];
    if (slot < 0) continue;
    const uint8_t rows = RowsWith(args, i);
    if (rows == 0) continue;
    if (static_cast<uint32_t>(slot) >= args.num_slots) {
      return Fail(ErrorCode::kCorrupt,
                  "SparseFfnArgs: neuron {} has slot {} of {}", i, slot,
                  args.num_slots);
    }
    list.neurons.push_back(i);
    list.slots.push_back(static_cast<uint32_t>(slot));
    list.rows.push_back(rows);
  }
  if (list.slots.size() > args.num_slots) {
    return Fail(ErrorCode::kCorrupt,
                "SparseFfnArgs: {} neurons are listed, more than the {} slots",
                list.slots.size(), args.num_slots);
  }
  return list;
}

// Of one row of activations.
struct SimOpen {
  std::vector<uint32_t> neurons;
  std::vector<uint32_t> slots;
  std::vector<float> values;  // gate, or h without one; then h

  void Clear() {
    neurons.clear();
    slots.clear();
    values.clear();
  }
};

// One SparseFfnArgs.
class SimSparseFfn {
 public:
  SimSparseFfn(const kernels::KernelTable& kernels,
               const kernels::SparseFfnArgs& args, const SimList& list)
      : kernels_(kernels),
        args_(args),
        list_(list),
        of_gate_(args.activation == Activation::kDRelu ? Activation::kRelu
                                                       : args.activation) {}

  DType tested_dtype() const {
    return args_.gated ? args_.gate_dtype : args_.up_dtype;
  }

  // tested_[t][i]: the first product of the list's neuron i, + bias.
  void Test(const SimInput& input) {
    tested_.resize(args_.num_tokens * list_.slots.size());
    Dot(tested_dtype(), args_.gated ? 0 : args_.up_offset, list_.slots, input,
        args_.num_tokens, tested_.data());
    const float* bias = args_.gated ? args_.gate_bias : args_.up_bias;
    for (size_t t = 0; bias != nullptr && t < args_.num_tokens; ++t) {
      AddBias(bias, list_.neurons, TestedOf(t));
    }
  }

  // Notes those whose further rows are read for row t.
  void Open(size_t t, std::vector<bool>& opened) {
    const size_t count = list_.slots.size();
    const float* products = TestedOf(t);
    activated_.resize(count);
    kernels_.activate(of_gate_, args_.threshold, nullptr, products, count,
                      activated_.data());
    open_.Clear();
    for (size_t i = 0; i < count; ++i) {
      // NaN opens.
      const float size = std::abs(activated_[i]);
      const bool rests =
          args_.rest_below >= 0.0f && (size == 0.0f || size < args_.rest_below);
      if ((list_.rows[i] >> t & 1) == 0 || rests) continue;
      opened[i] = true;
      open_.neurons.push_back(list_.neurons[i]);
      open_.slots.push_back(list_.slots[i]);
      open_.values.push_back(args_.gated ? products[i] : activated_[i]);
    }
  }

  // Of those: gate to h.
  void MultiplyUp(const SimInput& input) {
    if (open_.slots.empty()) return;  // values has no memory, as if ungated
    up_.resize(open_.slots.size());
    Dot(args_.up_dtype, args_.up_offset, open_.slots, input, 1, up_.data());
    if (args_.up_bias != nullptr) {
      AddBias(args_.up_bias, open_.neurons, up_.data());
    }
    kernels_.activate(args_.activation, args_.threshold, open_.values.data(),
                      up_.data(), up_.size(), open_.values.data());
  }

  void AddDown(size_t t) {
    float* out = args_.out + t * args_.n;
    std::fill_n(out, args_.n, 0.0f);
    uint32_t* fired = args_.fired == nullptr
                          ? nullptr
                          : args_.fired + t * DeviceSetWords(args_.num_neurons);
    if (fired != nullptr) {
      std::fill_n(fired, DeviceSetWords(args_.num_neurons), 0u);
    }
    size_t count = 0;
    for (size_t i = 0; i < open_.slots.size(); ++i) {
      if (open_.values[i] == 0.0f) continue;
      if (fired != nullptr) AddToSet(fired, open_.neurons[i]);
      open_.slots[count] = open_.slots[i];
      open_.values[count++] = open_.values[i];
    }
    kernels_.add_rows(args_.down_dtype)(
        {.rows = args_.records + args_.down_offset,
         .row_bytes = args_.record_bytes,
         .ids = open_.slots.data(),
         .coefs = open_.values.data(),
         .num_rows = count,
         .n = args_.n,
         .out = out});
  }

 private:
  float* TestedOf(size_t t) { return tested_.data() + t * list_.slots.size(); }

  void Dot(DType dtype, size_t offset, const std::vector<uint32_t>& slots,
           const SimInput& input, size_t num_tokens, float* out) {
    kernels_.dot_rows(dtype)({.rows = args_.records + offset,
                              .row_bytes = args_.record_bytes,
                              .ids = slots.data(),
                              .num_rows = slots.size(),
                              .n = args_.n,
                              .x = input.data,
                              .x_stride_bytes = input.stride_bytes,
                              .num_tokens = num_tokens,
                              .out = out,
                              .out_stride = slots.size()});
  }

  static void AddBias(const float* bias, const std::vector<uint32_t>& neurons,
                      float* values) {
    for (size_t i = 0; i < neurons.size(); ++i) values[i] += bias[neurons[i]];
  }

  const kernels::KernelTable& kernels_;
  const kernels::SparseFfnArgs& args_;
  const SimList& list_;
  Activation of_gate_;
  std::vector<float> tested_, activated_, up_;
  SimOpen open_;
};

}  // namespace

Result<SimCounts> SimOps::Do(const kernels::PredictArgs& args) {
  const size_t count = args.down.num_rows;
  Multiply(args.up, args.up_bias, args.x, args.num_tokens, args.hidden);
  const size_t num_hidden = args.num_tokens * size_t{args.up.num_rows};
  kernels_.activate(Activation::kRelu, 0.0f, nullptr, args.hidden, num_hidden,
                    args.hidden);
  float* scores = sums_.Floats(args.num_tokens * count);
  Multiply(args.down, args.down_bias, args.hidden, args.num_tokens, scores);
  for (size_t t = 0; t < args.num_tokens; ++t) {
    uint32_t* words = args.sets + t * DeviceSetWords(count);
    std::fill_n(words, DeviceSetWords(count), 0u);
    for (size_t i = 0; i < count; ++i) {
      if (!(scores[t * count + i] < args.threshold)) AddToSet(words, i);
    }
  }
  return SimCounts{};
}

Result<SimCounts> SimOps::Do(const kernels::SparseFfnArgs& args) {
  TC_ASSIGN_OR_RETURN(const SimList list, ListOf(args));
  if (args.num_listed != nullptr) {
    *args.num_listed = static_cast<uint32_t>(list.slots.size());
  }
  SimSparseFfn ffn(kernels_, args, list);
  ffn.Test(InputFor(ffn.tested_dtype(), args.x, args.n, args.num_tokens));
  std::vector<bool> opened(list.slots.size());
  for (size_t t = 0; t < args.num_tokens; ++t) {
    ffn.Open(t, opened);
    if (args.gated) {
      ffn.MultiplyUp(InputFor(args.up_dtype, args.x + t * args.n, args.n, 1));
    }
    ffn.AddDown(t);
  }
  const auto num_opened = std::count(opened.begin(), opened.end(), true);
  return SimCounts{.listed = list.slots.size(),
                   .opened = static_cast<uint64_t>(num_opened)};
}

}  // namespace thermocline::device
