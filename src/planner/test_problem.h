// For tests: problems small enough to try every placement of, and models' ones.
#ifndef THERMOCLINE_PLANNER_TEST_PROBLEM_H_
#define THERMOCLINE_PLANNER_TEST_PROBLEM_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "planner/problem.h"

namespace thermocline::planner {

// A card and a PC of the papers, about.
inline Hardware TestHardware() {
  return {.device_rate = 900e9,
          .host_rate = 60e9,
          .bus_rate = 60e9,
          .up_rate = 25e9,
          .down_rate = 25e9,
          .copy_seconds = 1.3e-6,
          .launch_seconds = 4e-6,
          .sync_seconds = 15e-6,
          .answer_seconds = 8e-6};
}

// Neurons of three rows, each of so many bytes. One fires as often as its place
// in a shuffled order says: few often, most seldom.
inline Neurons TestNeurons(size_t count, uint64_t row_bytes, double density,
                           Random& random) {
  Neurons neurons;
  neurons.rule = Rule::kOpen;
  neurons.record_bytes = 3 * row_bytes;
  neurons.other_bytes = 4 * count;
  const auto row = static_cast<double>(row_bytes);
  neurons.host = neurons.device = {.tested = row, .rest = 2 * row};
  neurons.tested_per_fired = 1.2;
  for (size_t i = 0; i < count; ++i) {
    // Of the mean 1, and a tail.
    const double draw = -std::log(1.0 - random.Uniform());
    neurons.frequency.push_back(
        static_cast<float>(std::min(1.0, density * draw * draw / 2.0)));
  }
  return neurons;
}

inline Part TestPart(uint64_t bytes) {
  return {.rule = Rule::kOpen,
          .bytes = bytes,
          .host_read = static_cast<double>(bytes),
          .device_read = static_cast<double>(bytes)};
}

// The predictor begins the layer's neurons.
inline void HideRoundTrip(const Hardware& hardware, Layer& layer) {
  layer.predictor.hidden_seconds = hardware.sync_seconds;
  layer.neurons.host_lead_seconds = hardware.answer_seconds;
}

// All that may be on the device at once.
inline uint64_t AllBytes(const Problem& problem) {
  uint64_t bytes = InPieces(problem.head.bytes);
  for (const Layer& layer : problem.layers) {
    bytes += InPieces(layer.attention.bytes) + InPieces(layer.predictor.bytes) +
             InPieces(layer.matrices.bytes) +
             NeuronBytes(layer.neurons, layer.neurons.count());
    for (const Expert& expert : layer.experts.experts) {
      bytes += InPieces(expert.bytes);
    }
  }
  return bytes;
}

// A model of L layers of F neurons and width D, 2 bytes a weight, with a
// predictor; a budget of a share of all of it.
inline Problem TestModelProblem(size_t num_layers, size_t num_neurons,
                                uint64_t width, double share, uint64_t seed) {
  Random random(seed);
  Problem problem;
  problem.hardware = TestHardware();
  for (size_t i = 0; i < num_layers; ++i) {
    Layer& layer = problem.layers.emplace_back();
    layer.attention = TestPart(width * width * 8);
    layer.predictor = TestPart((width + num_neurons) * 1024);
    layer.neurons = TestNeurons(num_neurons, 2 * width,
                                0.05 + 0.1 * random.Uniform(), random);
    if (seed % 2 == 0) HideRoundTrip(problem.hardware, layer);
  }
  problem.head = TestPart(width * 64000);
  problem.budget =
      static_cast<uint64_t>(share * static_cast<double>(AllBytes(problem)));
  return problem;
}

// A layer of any kind at odd sizes.
inline Layer RandomLayer(size_t max_neurons, Random& random) {
  const auto between = [&](uint64_t low, uint64_t high) {
    return low + random.Below(high - low + 1);
  };
  Layer layer;
  layer.attention = TestPart(between(1, 4000000));
  layer.attention.device_read *= 0.7;
  layer.attention.kv_bytes = layer.attention.bytes / 3;
  layer.attention.kv_read = layer.attention.device_read * 0.4;
  const uint64_t kind = random.Below(5);
  if (kind == 0) {
    layer.matrices = TestPart(between(1, 8000000));
  } else if (kind == 1) {
    layer.experts.rule = Rule::kOpen;
    for (uint64_t e = between(1, 16); e > 0; --e) {
      const uint64_t bytes = between(1, 900000);
      layer.experts.experts.push_back(
          {.bytes = bytes,
           .host_read = static_cast<double>(bytes),
           .device_read = 1.1 * static_cast<double>(bytes),
           .frequency = static_cast<float>(random.Uniform())});
    }
  } else {
    layer.neurons = TestNeurons(between(1, max_neurons), between(1, 9000),
                                0.3 * random.Uniform(), random);
    layer.neurons.tested_per_fired = kind == 2 ? 0.0 : 1.3;
    layer.predictor = TestPart(between(1, 500000));
  }
  return layer;
}

// Layers of every kind, on machines of odd rates.
inline Problem RandomProblem(uint64_t seed, size_t max_neurons = 300) {
  Random random(seed);
  const auto draw = [&](uint64_t low, uint64_t high) {
    return static_cast<double>(low + random.Below(high - low + 1));
  };
  Problem problem;
  Hardware& hardware = problem.hardware;
  hardware = TestHardware();
  hardware.device_rate = 50e9 * draw(1, 30);
  hardware.host_rate = 5e9 * draw(1, 20);
  hardware.sync_seconds = 1e-6 * draw(0, 20);
  hardware.answer_seconds = 0.6 * hardware.sync_seconds;
  hardware.launch_seconds = 1e-6 * draw(0, 5);
  for (uint64_t i = 1 + random.Below(6); i > 0; --i) {
    problem.layers.push_back(RandomLayer(max_neurons, random));
    Layer& layer = problem.layers.back();
    if (layer.predictor.exists() && seed % 3 == 0) {
      HideRoundTrip(hardware, layer);
    }
  }
  problem.head = TestPart(1 + random.Below(6000000));
  problem.fixed_seconds = 1e-6;
  problem.budget = static_cast<uint64_t>(
      random.Uniform() * 1.05 * static_cast<double>(AllBytes(problem)));
  return problem;
}

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_TEST_PROBLEM_H_
