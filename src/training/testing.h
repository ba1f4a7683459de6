// What the tests of this room share.
#ifndef THERMOCLINE_TRAINING_TESTING_H_
#define THERMOCLINE_TRAINING_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "model/model.h"
#include "os/thread_pool.h"
#include "tensor/float16.h"
#include "training/corpus.h"
#include "training/gate_rows.h"
#include "training/low_rank.h"

namespace thermocline::training {

inline std::unique_ptr<os::ThreadPool> TestPool(int num_threads) {
  auto pool =
      os::ThreadPool::Create({.num_threads = num_threads, .pin = false});
  TC_CHECK(pool.has_value());
  return std::move(*pool);
}

// A gate that is held in memory: `rows` of all experts, one after the other.
inline Gate HoldGate(GateRows rows, size_t num_experts) {
  return {.num_experts = num_experts,
          .read = [rows = std::move(rows), num_experts](size_t expert_idx) {
            const auto part = [&](const std::vector<float>& all) {
              const size_t size = all.size() / num_experts;
              const float* first = all.data() + expert_idx * size;
              return std::vector<float>(first, first + size);
            };
            return GateRows{.rows = part(rows.rows),
                            .biases = part(rows.biases)};
          }};
}

// A layer whose gates see few directions of their input: neuron i fires where
// gate_i x + bias_i > 0, and gate has rank `rank`. Inputs are random, and so
// are the experts that each uses, if there are any: others fire nothing.
struct SyntheticLayer {
  SyntheticLayer(size_t width, size_t num_neurons, size_t rank,
                 size_t num_samples, uint64_t seed, size_t num_experts = 1,
                 size_t num_used = 1)
      : gate{.rows = std::vector<float>(num_neurons * width),
             .biases = std::vector<float>(num_neurons, -0.8f)} {
    Random random(seed);
    std::vector<float> left(num_neurons * rank);
    std::vector<float> right(rank * width);
    for (float& value : left) value = random.Uniform(-1, 1);
    for (float& value : right) value = random.Uniform(-1, 1);
    for (size_t i = 0; i < num_neurons; ++i) {
      for (size_t j = 0; j < width; ++j) {
        for (size_t r = 0; r < rank; ++r) {
          gate.rows[i * width + j] +=
              left[i * rank + r] * right[r * width + j] / 8.0f;
        }
      }
    }
    samples.num_samples = num_samples;
    samples.width = width;
    samples.num_neurons = num_neurons;
    samples.num_experts = num_experts;
    samples.num_used = num_used;
    fired.resize(num_samples * samples.words());
    if (num_experts > 1) DrawExperts(random);
    for (size_t n = 0; n < num_samples; ++n) {
      for (size_t j = 0; j < width; ++j) {
        inputs.push_back(F32ToF16(random.Uniform(-1, 1)));
      }
      for (size_t i = 0; i < num_neurons; ++i) {
        if (samples.Uses(n, i / samples.ffn_width()) && Margin(n, i) > 0) {
          fired[n * samples.words() + i / 64] |= uint64_t{1} << (i % 64);
        }
      }
    }
    samples.inputs = inputs.data();
    samples.fired = fired.data();
  }
  SyntheticLayer(const SyntheticLayer&) = delete;
  SyntheticLayer& operator=(const SyntheticLayer&) = delete;

  double Margin(size_t sample_idx, size_t neuron) const {
    double sum = double{gate.biases[neuron]};
    for (size_t j = 0; j < samples.width; ++j) {
      sum += double{F16ToF32(inputs[sample_idx * samples.width + j])} *
             gate.rows[neuron * samples.width + j];
    }
    return sum;
  }

  // For inputs that are multiplied with `input_scale`.
  Gate ScaledGate(float input_scale = 1.0f) const {
    GateRows rows = gate;
    for (float& value : rows.rows) value /= input_scale;
    return HoldGate(std::move(rows), samples.num_experts);
  }

  // The samples but the last `num_held_out`, and those.
  Samples Train(size_t num_held_out) const {
    Samples out = samples;
    out.num_samples -= num_held_out;
    return out;
  }
  Samples HeldOut(size_t num_held_out) const {
    Samples out = samples;
    const size_t first = out.num_samples - num_held_out;
    out.inputs += first * out.width;
    out.fired += first * out.words();
    if (out.experts != nullptr) out.experts += first;
    out.num_samples = num_held_out;
    return out;
  }

  GateRows gate;
  std::vector<uint16_t> inputs;
  std::vector<uint64_t> fired;
  std::vector<uint64_t> experts;
  Samples samples;

 private:
  void DrawExperts(Random& random) {
    TC_CHECK(samples.num_experts <= 64);
    for (size_t n = 0; n < samples.num_samples; ++n) {
      uint64_t set = 0;
      while (static_cast<size_t>(std::popcount(set)) < samples.num_used) {
        set |= uint64_t{1} << random.Below(samples.num_experts);
      }
      experts.push_back(set);
    }
    samples.experts = experts.data();
  }
};

inline constexpr size_t kGateWidth = 32;
inline constexpr size_t kGateNeurons = 100;

// A layer of 100 neurons whose gate has rank 4, and what computes with it.
struct GateFixture {
  GateFixture() : pool(TestPool(2)), gemm(pool.get()) {}
  std::unique_ptr<os::ThreadPool> pool;
  Gemm gemm;
  SyntheticLayer layer{kGateWidth, kGateNeurons, 4, 600, 1};
};

// Of a file in testdata/ or models/.
inline std::string TestPath(const std::string& name) {
  const bool is_test_data = name.starts_with("testdata/");
  return is_test_data ? TC_TEST_DATA + name.substr(name.find('/'))
                      : std::string(TC_SOURCE_DIR) + "/" + name;
}

inline std::shared_ptr<const model::Model> OpenTestModel(
    const std::string& name, const model::OpenOptions& options = {}) {
  auto model = model::Model::Open(TestPath(name), options);
  TC_CHECK(model.has_value());
  return *model;
}

inline std::shared_ptr<const model::Model> OpenDemo() {
  return OpenTestModel("models/demo/thermocline-demo-8.8m-f16.gguf");
}

// Two layers of random weights, gated by a ReLU.
inline std::shared_ptr<const model::Model> OpenTiny() {
  return OpenTestModel("testdata/golden-powerinfer/llama-f16.powerinfer.gguf");
}

inline std::string ReadTestFile(const std::string& name) {
  std::ifstream file(TestPath(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The tiny model but for a bit in the last layer's up matrix: its copy at
// `path`.
inline std::shared_ptr<const model::Model> OpenTinyTwin(
    const std::string& path) {
  const auto tiny = OpenTiny();
  const TensorView& up = tiny->weights().layers.back().ffn.up;
  std::string bytes =
      ReadTestFile("testdata/golden-powerinfer/llama-f16.powerinfer.gguf");
  const size_t place = bytes.find(
      std::string_view(reinterpret_cast<const char*>(up.data), up.row_bytes()));
  TC_CHECK(place != std::string::npos);
  bytes[place] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  auto twin = model::Model::Open(path);
  TC_CHECK(twin.has_value());
  return *twin;
}

// Sixteen chunks of `chunk` tokens of the demo model's held-out text.
inline Corpus SmallCorpus(const model::Model& model, int64_t chunk) {
  auto corpus = Corpus::Create(
      model, ReadTestFile("testdata/demo/valid.txt"), "valid.txt",
      {.chunk = chunk,
       .max_tokens = kMinChunks * static_cast<uint64_t>(chunk)});
  TC_CHECK(corpus.has_value());
  return *corpus;
}

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_TESTING_H_
