// Layers for the tests of a sparse FFN's stages, and what they come to in
// double.
#ifndef THERMOCLINE_KERNELS_CUDA_TEST_SPARSE_FFN_H_
#define THERMOCLINE_KERNELS_CUDA_TEST_SPARSE_FFN_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/sparse_ffn.h"
#include "kernels/cuda/test_rows.h"
#include "kernels/cuda/testing.h"

namespace thermocline::cuda {

struct SparseFfnShape {
  DType gate, up, down;
  size_t n, num_neurons, num_tokens;
  Activation activation = Activation::kRelu;
  float rest_below = 0.0f;
  bool gated = true;
  bool has_bias = false;
  uint64_t wanted_of_8 = 3;  // the share of each set; 8: there are no sets
};

// A layer on the host: random, two neurons of three resident, their slots not
// in the order of the neurons.
struct SparseFfnLayer {
  SparseFfnShape shape;
  size_t set_words;
  std::vector<int32_t> slot_of;
  size_t num_resident = 0;
  std::vector<uint32_t> sets;
  std::vector<float> x, gate_bias, up_bias;
  std::optional<TestMatrix> gate, up, down;  // by slot
  std::vector<std::byte> records;
  size_t record_bytes = 0, up_offset = 0, down_offset = 0;

  explicit SparseFfnLayer(const SparseFfnShape& s, uint64_t seed = 1)
      : shape(s), set_words(kernels::DeviceSetWords(s.num_neurons)) {
    Random random(seed);
    for (size_t i = 0; i < s.num_neurons; ++i) {
      slot_of.push_back(
          random.Below(3) != 0 ? static_cast<int32_t>(num_resident++) : -1);
    }
    for (int32_t& slot : slot_of) {
      if (slot >= 0) slot = static_cast<int32_t>(num_resident) - 1 - slot;
    }
    // Bits past the last neuron are set as well: they mean nothing.
    for (size_t w = 0; w < s.num_tokens * set_words; ++w) {
      uint32_t word = 0;
      for (int i = 0; i < 32; ++i) {
        word |= uint32_t{random.Below(8) < s.wanted_of_8} << i;
      }
      sets.push_back(word);
    }
    x = RandomFloats(random, s.num_tokens * s.n);
    gate_bias = RandomFloats(random, s.num_neurons);
    up_bias = RandomFloats(random, s.num_neurons);
    if (s.n > 0) MakeRecords(random);
  }

  bool Wants(size_t t, size_t neuron) const {
    return shape.wanted_of_8 == 8 ||
           (sets[t * set_words + neuron / 32] >> neuron % 32 & 1) != 0;
  }
  uint32_t RowsOf(size_t neuron) const {
    uint32_t rows = 0;
    for (size_t t = 0; t < shape.num_tokens; ++t) {
      rows |= uint32_t{Wants(t, neuron)} << t;
    }
    return slot_of[neuron] < 0 ? 0 : rows;
  }
  // Group by group, and where these begin.
  std::vector<uint32_t> Listed(std::vector<uint32_t>* begins = nullptr) const {
    std::vector<uint32_t> list;
    for (size_t group = 0; group < kernels::kDeviceGroups; ++group) {
      if (begins != nullptr) begins->push_back(uint32_t(list.size()));
      for (size_t i = 0; i < shape.num_neurons; ++i) {
        if (i / 32 % 32 * 2 + i / 16 % 2 == group && RowsOf(i) != 0) {
          list.push_back(static_cast<uint32_t>(i));
        }
      }
    }
    if (begins != nullptr) begins->push_back(uint32_t(list.size()));
    return list;
  }

  // x as the weights see it, or as it is.
  std::vector<double> RowOfX(DType dtype, size_t t, bool rounds) const {
    const auto row = std::span(x).subspan(t * shape.n, shape.n);
    return SeenX(rounds ? dtype : DType::kF32, row);
  }

  // [T, num_neurons]
  std::vector<double> Hidden(bool rounds = true) const {
    std::vector<double> hidden;
    for (size_t t = 0; t < shape.num_tokens; ++t) {
      const std::vector<double> gate_x = RowOfX(shape.gate, t, rounds);
      const std::vector<double> up_x = RowOfX(shape.up, t, rounds);
      for (size_t i = 0; i < shape.num_neurons; ++i) {
        const bool listed = slot_of[i] >= 0 && Wants(t, i);
        hidden.push_back(listed ? HiddenOf(i, gate_x, up_x) : 0.0);
      }
    }
    return hidden;
  }
  // [T, n]
  std::vector<double> Out(bool rounds = true) const {
    const std::vector<double> hidden = Hidden(rounds);
    std::vector<double> out(shape.num_tokens * shape.n);
    for (size_t at = 0; at < hidden.size(); ++at) {
      if (hidden[at] == 0) continue;
      const size_t t = at / shape.num_neurons, i = at % shape.num_neurons;
      const auto slot = static_cast<size_t>(slot_of[i]);
      for (size_t j = 0; j < shape.n; ++j) {
        out[t * shape.n + j] +=
            hidden[at] * static_cast<double>(down->values[slot * shape.n + j]);
      }
    }
    return out;
  }

 private:
  void MakeRecords(Random& random) {
    if (shape.gated) gate.emplace(shape.gate, num_resident, shape.n, random);
    up.emplace(shape.up, num_resident, shape.n, random);
    down.emplace(shape.down, num_resident, shape.n, random);
    up_offset = shape.gated ? gate->row_bytes : 0;
    down_offset = up_offset + up->row_bytes;
    record_bytes = down_offset + down->row_bytes;
    records.resize(num_resident * record_bytes);
    for (size_t slot = 0; slot < num_resident; ++slot) {
      std::byte* record = &records[slot * record_bytes];
      const auto copy = [&](const TestMatrix& matrix, size_t offset) {
        std::memcpy(record + offset, &matrix.rows[slot * matrix.row_bytes],
                    matrix.row_bytes);
      };
      if (shape.gated) copy(*gate, 0);
      copy(*up, up_offset);
      copy(*down, down_offset);
    }
  }
  double Activate(double v) const {
    switch (shape.activation) {
      case Activation::kSilu:
        return v / (1 + std::exp(-v));
      case Activation::kGelu:
        return 0.5 * v *
               (1 +
                std::tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)));
      case Activation::kFatRelu:
        return v < kThreshold ? 0.0 : v;
      case Activation::kRelu2:
        return v < 0 ? 0.0 : v * v;
      default:
        return v < 0 ? 0.0 : v;
    }
  }
  double HiddenOf(size_t i, std::span<const double> gate_x,
                  std::span<const double> up_x) const {
    const auto slot = static_cast<size_t>(slot_of[i]);
    const double up_value =
        up->Dot(slot, up_x) + (shape.has_bias ? double{up_bias[i]} : 0.0);
    const double h =
        Activate(shape.gated ? gate->Dot(slot, gate_x) +
                                   (shape.has_bias ? double{gate_bias[i]} : 0.0)
                             : up_value);
    const bool rests =
        shape.rest_below >= 0 && (h == 0 || std::fabs(h) < shape.rest_below);
    if (rests) return 0.0;
    if (!shape.gated) return h;
    return h * (shape.activation == Activation::kDRelu
                    ? std::fmax(up_value, 0.0)
                    : up_value);
  }

 public:
  static constexpr float kThreshold = 0.125f;  // of kFatRelu
};

// The layer on the device.
struct SparseFfnOnDevice {
  DeviceArray<float> x, gate_bias, up_bias;
  DeviceArray<uint32_t> sets;
  DeviceArray<int32_t> slot_of;
  DeviceArray<std::byte> records;

  explicit SparseFfnOnDevice(const SparseFfnLayer& layer)
      : x(layer.x),
        gate_bias(layer.gate_bias),
        up_bias(layer.up_bias),
        sets(layer.sets),
        slot_of(layer.slot_of),
        records(layer.records) {}
};

// What one launch writes, and its arguments.
struct SparseFfnRun {
  DeviceArray<std::byte> scratch;
  DeviceArray<float> out;
  DeviceArray<uint32_t> fired, num_listed;
  kernels::SparseFfnArgs args;

  SparseFfnRun(const SparseFfnLayer& layer, const SparseFfnOnDevice& device)
      : SparseFfnRun(
            layer, device,
            kernels::SparseFfnScratchBytes(layer.shape.n, layer.num_resident,
                                           layer.shape.num_tokens)) {}
  // With what earlier stages left in the scratch memory, or so many bytes.
  template <typename Scratch>
  SparseFfnRun(const SparseFfnLayer& layer, const SparseFfnOnDevice& device,
               const Scratch& before)
      : scratch(before),
        out(layer.shape.num_tokens * layer.shape.n),
        fired(layer.shape.num_tokens * layer.set_words),
        num_listed(1) {
    const SparseFfnShape& s = layer.shape;
    args.activation = s.activation;
    args.threshold = SparseFfnLayer::kThreshold;
    args.rest_below = s.rest_below;
    args.n = static_cast<uint32_t>(s.n);
    args.num_neurons = static_cast<uint32_t>(s.num_neurons);
    args.num_slots = static_cast<uint32_t>(layer.num_resident);
    args.num_tokens = static_cast<uint32_t>(s.num_tokens);
    args.x = device.x.get();
    args.sets = s.wanted_of_8 == 8 ? nullptr : device.sets.get();
    args.slot_of = device.slot_of.get();
    args.records = device.records.get();
    args.record_bytes = layer.record_bytes;
    args.gated = s.gated;
    args.gate_dtype = s.gate;
    args.up_dtype = s.up;
    args.down_dtype = s.down;
    args.up_offset = layer.up_offset;
    args.down_offset = layer.down_offset;
    args.gate_bias = s.has_bias ? device.gate_bias.get() : nullptr;
    args.up_bias = s.has_bias ? device.up_bias.get() : nullptr;
    args.out = out.get();
    args.fired = fired.get();
    args.num_listed = num_listed.get();
    args.scratch = scratch.get();
  }

  // Part of the scratch memory (ScratchOf).
  template <typename T>
  std::vector<T> ReadPart(const T* begin, size_t count) const {
    const std::vector<std::byte> bytes = scratch.Read();
    const ptrdiff_t at =
        reinterpret_cast<const std::byte*>(begin) - scratch.get();
    std::vector<T> part(count);
    if (count > 0)
      std::memcpy(part.data(), &bytes[size_t(at)], count * sizeof(T));
    return part;
  }
};

// The sets of what is not 0.
inline std::vector<uint32_t> FiredOf(const SparseFfnLayer& layer,
                                     std::span<const double> hidden) {
  std::vector<uint32_t> fired(layer.shape.num_tokens * layer.set_words);
  for (size_t at = 0; at < hidden.size(); ++at) {
    const size_t t = at / layer.shape.num_neurons;
    const size_t i = at % layer.shape.num_neurons;
    fired[t * layer.set_words + i / 32] |= uint32_t{hidden[at] != 0} << i % 32;
  }
  return fired;
}

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_TEST_SPARSE_FFN_H_
