#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/sparse_ffn.h"
#include "kernels/cuda/test_mutants.h"
#include "kernels/cuda/test_sparse_ffn.h"
#include "kernels/cuda/testing.h"

namespace thermocline::cuda {

std::span<const Mutant<decltype(&LaunchSparseHidden)>>
MutantsOfLaunchSparseHidden();

namespace {

// What is wrong with a run after that of the list; empty: nothing.
std::string RunHidden(const SparseFfnLayer& layer,
                      decltype(&LaunchSparseHidden) launch) {
  const SparseFfnOnDevice device(layer);
  const SparseFfnRun run(layer, device);
  LaunchSparseList(run.args, nullptr);
  launch(run.args, nullptr);
  if (const std::string fault = TakeFault(); !fault.empty()) return fault;
  const std::vector<double> all = layer.Hidden();
  const std::vector<uint32_t> listed = layer.Listed();
  const std::vector<float> hidden = run.ReadPart(
      ScratchOf(run.args).hidden, layer.shape.num_tokens * layer.num_resident);
  std::vector<double> expected;
  std::vector<float> got;
  for (size_t t = 0; t < layer.shape.num_tokens; ++t) {
    for (size_t i = 0; i < listed.size(); ++i) {
      expected.push_back(all[t * layer.shape.num_neurons + listed[i]]);
      got.push_back(hidden[t * layer.num_resident + i]);
      if ((expected.back() == 0) != (got.back() == 0)) return "wrong zeros";
    }
  }
  if (!(Nmse(got, expected) < 1e-12)) return "wrong hidden";
  if (run.fired.Read() != FiredOf(layer, all)) return "wrong fired";
  return "";
}

TEST(SparseHidden, KnowsEveryActivation) {
  for (const ActivationInfo& info : Activations()) {
    for (const float rest_below : {-1.0f, 0.0f, 0.3f}) {
      for (const bool gated : {true, false}) {
        if (!gated && info.needs_gate) continue;
        SCOPED_TRACE(testing::Message() << info.name << ", " << rest_below
                                        << (gated ? ", gated" : ""));
        const SparseFfnLayer layer({.gate = DType::kQ4_0,
                                    .up = DType::kF16,
                                    .down = DType::kF16,
                                    .n = 96,
                                    .num_neurons = 41,
                                    .num_tokens = gated ? 3u : 1u,
                                    .activation = info.activation,
                                    .rest_below = rest_below,
                                    .gated = gated,
                                    .has_bias = rest_below != 0});
        EXPECT_EQ(RunHidden(layer, LaunchSparseHidden), "");
      }
    }
  }
}

#ifdef TC_CUDA_ON_HOST

TEST(SparseHidden, MutantsAreNoticed) {
  // One launch and two, several rows and one, some at rest.
  SparseFfnShape shape = {.gate = DType::kQ8_0,
                          .up = DType::kQ8_0,
                          .down = DType::kF16,
                          .n = 64,
                          .num_neurons = 70,
                          .num_tokens = 2,
                          .activation = Activation::kDRelu,
                          .rest_below = 0.2f,
                          .has_bias = true};
  std::vector<SparseFfnLayer> layers = {SparseFfnLayer(shape)};
  shape.gate = DType::kF16;
  shape.activation = Activation::kSilu;
  layers.emplace_back(shape);
  shape.gated = false;
  layers.emplace_back(shape);
  cuda_on_host::SetOptions({});
  for (const SparseFfnLayer& layer : layers) {
    EXPECT_EQ(RunHidden(layer, LaunchSparseHidden), "");
  }
  for (const auto& mutant : MutantsOfLaunchSparseHidden()) {
    std::string what;
    for (const SparseFfnLayer& layer : layers) {
      what += RunHidden(layer, mutant.launch);
    }
    EXPECT_NE(what, "") << mutant.name;
  }
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
