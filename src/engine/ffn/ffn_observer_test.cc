#include "engine/ffn/ffn_observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::TinySpec;

// What an observer keeps of an observation.
struct Seen {
  std::pair<int64_t, size_t> place;  // position, layer
  std::vector<float> input, stream, gate;
  std::vector<uint32_t> candidates, fired, experts;
};

template <typename T>
std::vector<std::remove_const_t<T>> CopyOf(std::span<T> span) {
  return {span.begin(), span.end()};
}

std::vector<Seen> Observe(const TinySpec& spec, SessionOptions options) {
  std::vector<Seen> all;
  const auto model = testing::MakeTinyModel(spec);
  if (model == nullptr) return all;
  options.ffn = FfnMode::kDense;
  options.observer = [&](const FfnObservation& seen) {
    all.push_back({{seen.position, seen.layer_idx},
                   CopyOf(seen.input),
                   CopyOf(seen.stream),
                   CopyOf(seen.gate),
                   CopyOf(seen.candidates),
                   CopyOf(seen.fired),
                   CopyOf(seen.experts)});
  };
  testing::DecodeAll(model, testing::RandomTokens(11, spec.vocab_size),
                     options);
  std::ranges::sort(all, {}, &Seen::place);
  return all;
}

TinySpec SpecOf(const std::string& architecture) {
  TinySpec spec;
  testing::UseArchitecture(architecture, spec);
  spec.activation = "relu";
  return spec;
}

// Every token in every layer once, with what it read: the same for every cut of
// the sequence.
TEST(FfnObserver, SeesEveryTokenInEveryLayer) {
  for (const char* architecture : {"llama", "opt", "falcon", "mixtral"}) {
    SCOPED_TRACE(architecture);
    const TinySpec spec = SpecOf(architecture);
    const auto whole = Observe(spec, {});
    ASSERT_EQ(whole.size(), 11u * spec.num_layers);
    const auto cut = Observe(spec, {.num_threads = 3, .batch = 4});
    ASSERT_EQ(cut.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      const size_t num_layers = spec.num_layers;
      const auto position = static_cast<int64_t>(i / num_layers);
      const size_t layer_idx = i % num_layers;
      EXPECT_EQ(whole[i].place, std::pair(position, layer_idx));
      EXPECT_EQ(whole[i].place, cut[i].place);
      EXPECT_EQ(whole[i].input, cut[i].input);
      EXPECT_EQ(whole[i].stream, cut[i].stream);
      EXPECT_EQ(whole[i].fired, cut[i].fired);
    }
  }
}

// The gate is what the activation was applied to; ReLU lets what is above zero
// through, a product with up may be zero all the same.
TEST(FfnObserver, FiredIsWhatTheGateLetsThrough) {
  for (const char* architecture : {"llama", "opt", "falcon"}) {
    SCOPED_TRACE(architecture);
    const TinySpec spec = SpecOf(architecture);
    for (const Seen& seen : Observe(spec, {})) {
      ASSERT_EQ(seen.gate.size(), spec.ffn_width);
      std::vector<uint32_t> open;
      for (uint32_t i = 0; i < seen.gate.size(); ++i) {
        EXPECT_EQ(seen.candidates[i], i);
        if (seen.gate[i] > 0.0f) open.push_back(i);
      }
      EXPECT_EQ(seen.fired, open);
      EXPECT_GT(open.size(), 10u);
      EXPECT_LT(open.size(), seen.gate.size() - 10);
    }
  }
}

// The input is the norm of the stream, also where attention and FFN share it.
TEST(FfnObserver, TheStreamIsTheOneThatWasNormed) {
  for (const char* architecture : {"llama", "falcon"}) {
    SCOPED_TRACE(architecture);
    TinySpec spec = SpecOf(architecture);
    spec.edit = [](const std::string& name, std::span<float> values) {
      if (name.ends_with("norm.weight")) std::ranges::fill(values, 1.0f);
      if (name.ends_with("norm.bias")) std::ranges::fill(values, 0.0f);
    };
    for (const Seen& seen : Observe(spec, {})) {
      const auto n = static_cast<double>(seen.stream.size());
      double mean = 0.0;
      if (spec.architecture == "falcon") {  // a layer norm
        for (const float x : seen.stream) mean += static_cast<double>(x) / n;
      }
      double square = 0.0;
      for (const float x : seen.stream) square += (x - mean) * (x - mean) / n;
      for (size_t i = 0; i < seen.stream.size(); ++i) {
        ASSERT_NEAR(seen.input[i],
                    (seen.stream[i] - mean) / std::sqrt(square + 1e-5), 1e-3);
      }
    }
  }
}

TEST(FfnObserver, ExpertsAreNumberedThrough) {
  const TinySpec spec = SpecOf("mixtral");
  const auto ffn_width = static_cast<uint32_t>(spec.ffn_width);
  for (const Seen& seen : Observe(spec, {})) {
    ASSERT_EQ(seen.candidates.size(), 2u * ffn_width);
    for (size_t i = 0; i < seen.candidates.size(); i += ffn_width) {
      EXPECT_EQ(seen.candidates[i] % ffn_width, 0u);
      EXPECT_EQ(seen.candidates[i + ffn_width - 1],
                seen.candidates[i] + ffn_width - 1);
    }
    EXPECT_TRUE(std::ranges::includes(seen.candidates, seen.fired));
    EXPECT_GT(seen.fired.size(), 20u);
    EXPECT_LT(seen.fired.size(), seen.candidates.size() - 20);
    // The gates of both experts, in the router's order.
    ASSERT_EQ(seen.experts.size(), 2u);
    ASSERT_EQ(seen.gate.size(), 2u * ffn_width);
    std::vector<uint32_t> open;
    for (uint32_t i = 0; i < seen.gate.size(); ++i) {
      if (seen.gate[i] <= 0.0f) continue;
      open.push_back(seen.experts[i / ffn_width] * ffn_width + i % ffn_width);
    }
    std::ranges::sort(open);
    EXPECT_EQ(seen.fired, open);
  }
}

}  // namespace
}  // namespace thermocline::engine
