#include "kernels/cuda/sparse_ffn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cuda/test_sparse_ffn.h"
#include "kernels/cuda/testing.h"

namespace thermocline::cuda {
namespace {

struct Outcome {
  std::vector<float> out;
  std::vector<uint32_t> fired;
  uint32_t num_listed = 0;
};

Outcome RunLayer(const SparseFfnLayer& layer) {
  const SparseFfnOnDevice device(layer);
  const SparseFfnRun run(layer, device);
  Launch(run.args, nullptr);
  EXPECT_EQ(TakeFault(), "");
  return {run.out.Read(), run.fired.Read(), run.num_listed.Read()[0]};
}

void ExpectRight(const SparseFfnLayer& layer) {
  const Outcome outcome = RunLayer(layer);
  EXPECT_EQ(outcome.num_listed, layer.Listed().size());
  EXPECT_EQ(outcome.fired, FiredOf(layer, layer.Hidden()));
  EXPECT_LT(Nmse(outcome.out, layer.Out()), 1e-12);
  const bool are_floats = IsFloat(layer.shape.gate) && IsFloat(layer.shape.up);
  EXPECT_LT(Nmse(outcome.out, layer.Out(false)), are_floats ? 1e-6 : 1e-3);
}

TEST(SparseFfn, EqualsTheReferenceInEveryType) {
  for (const DType dtype : kRowTypes) {
    for (const size_t num_tokens : {1, 2, 8}) {
      SCOPED_TRACE(testing::Message() << NameOf(dtype) << ", " << num_tokens);
      ExpectRight(SparseFfnLayer({.gate = dtype,
                                  .up = dtype,
                                  .down = dtype,
                                  .n = IsFloat(dtype) ? 261u : 256u,
                                  .num_neurons = num_tokens == 8 ? 40u : 70u,
                                  .num_tokens = num_tokens}));
    }
  }
}

// Types as the common mixes have them, gated and plain, more tokens.
constexpr SparseFfnShape kMixes[] = {
    {.gate = DType::kQ4_K,
     .up = DType::kQ4_K,
     .down = DType::kQ6_K,
     .n = 512,
     .num_neurons = 90,
     .num_tokens = 3,
     .activation = Activation::kFatRelu,
     .rest_below = 0.5f},
    {.gate = DType::kQ5_K,
     .up = DType::kF16,
     .down = DType::kQ8_0,
     .n = 256,
     .num_neurons = 60,
     .num_tokens = 4,
     .activation = Activation::kSilu,
     .rest_below = -1.0f,
     .has_bias = true},
    {.gate = DType::kF16,
     .up = DType::kQ4_0,
     .down = DType::kBF16,
     .n = 1056,
     .num_neurons = 33,
     .num_tokens = 5,
     .activation = Activation::kRelu2,
     .gated = false,
     .has_bias = true},
    {.gate = DType::kQ4_0,
     .up = DType::kQ4_0,
     .down = DType::kQ4_0,
     .n = 1088,
     .num_neurons = 50,
     .num_tokens = 1,
     .wanted_of_8 = 8},
};

TEST(SparseFfn, EqualsTheReferenceInMixes) {
  for (const SparseFfnShape& shape : kMixes) {
    SCOPED_TRACE(shape.n);
    ExpectRight(SparseFfnLayer(shape));
  }
}

TEST(SparseFfn, NeedsNeitherFiredNorTheCount) {
  const SparseFfnLayer layer({.gate = DType::kF16,
                              .up = DType::kF16,
                              .down = DType::kF16,
                              .n = 40,
                              .num_neurons = 50,
                              .num_tokens = 1});
  const SparseFfnOnDevice device(layer);
  SparseFfnRun run(layer, device);
  run.args.fired = nullptr;
  run.args.num_listed = nullptr;
  Launch(run.args, nullptr);
  ASSERT_EQ(TakeFault(), "");
  EXPECT_LT(Nmse(run.out.Read(), layer.Out()), 1e-12);
}

TEST(SparseFfn, IsZeroWithoutAList) {
  SparseFfnShape shape = {.gate = DType::kQ4_0,
                          .up = DType::kQ4_0,
                          .down = DType::kQ4_0,
                          .n = 64,
                          .num_neurons = 50,
                          .num_tokens = 2,
                          .wanted_of_8 = 0};
  const SparseFfnLayer empty_sets(shape);
  // Nothing is resident: there is no memory for a list, either.
  SparseFfnLayer no_slots(shape);
  std::ranges::fill(no_slots.slot_of, -1);
  no_slots.num_resident = 0;
  const SparseFfnLayer* const layers[] = {&empty_sets, &no_slots};
  for (const SparseFfnLayer* layer : layers) {
    const Outcome outcome = RunLayer(*layer);
    EXPECT_EQ(outcome.num_listed, 0u);
    for (const float value : outcome.out) EXPECT_EQ(value, 0.0f);
    for (const uint32_t word : outcome.fired) EXPECT_EQ(word, 0u);
  }
}

std::vector<uint32_t> BitsOf(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values)
    bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

TEST(SparseFfn, ARowDoesNotDependOnThoseBesideIt) {
  const SparseFfnLayer layer({.gate = DType::kQ4_K,
                              .up = DType::kQ4_K,
                              .down = DType::kQ6_K,
                              .n = 256,
                              .num_neurons = 200,
                              .num_tokens = 3});
  const std::vector<float> all = RunLayer(layer).out;
  for (size_t t = 0; t < 3; ++t) {
    SparseFfnLayer one = layer;
    one.shape.num_tokens = 1;
    one.x.assign(layer.x.begin() + ptrdiff_t(t) * 256,
                 layer.x.begin() + ptrdiff_t(t + 1) * 256);
    one.sets.assign(layer.sets.begin() + ptrdiff_t(t * layer.set_words),
                    layer.sets.begin() + ptrdiff_t((t + 1) * layer.set_words));
    EXPECT_EQ(BitsOf(RunLayer(one).out),
              BitsOf(std::span(all).subspan(t * 256, 256)))
        << "row " << t;
  }
}

// Bits that every GPU has to come to as well.
TEST(SparseFfn, HasTheseBits) {
  constexpr uint64_t kHashes[] = {0x5d643698c2eebee0, 0xe78c5c6544c00435,
                                  0x33a26b815177ecf5, 0x4ba48d3b1c6a4fcf,
                                  0xcaac0bf9e32a0003, 0xf3f5e5800a39f330};
  for (size_t i = 0; i < Activations().size(); ++i) {
    const DType dtype = kRowTypes[i + 1];
    const SparseFfnLayer layer({.gate = dtype,
                                .up = dtype,
                                .down = dtype,
                                .n = 256,
                                .num_neurons = 50,
                                .num_tokens = 2,
                                .activation = Activations()[i].activation});
    const uint64_t hash = HashOf(RunLayer(layer).out);
    EXPECT_EQ(hash, kHashes[i]) << NameOf(dtype) << std::hex << ": 0x" << hash;
  }
}

TEST(SparseFfn, NoOrderOfThreadsChangesABit) {
  for (const DType dtype : {DType::kQ5_K, DType::kF16}) {
    const SparseFfnLayer layer({.gate = dtype,
                                .up = dtype,
                                .down = dtype,
                                .n = 256,
                                .num_neurons = 30,
                                .num_tokens = 2,
                                .activation = Activation::kGelu});
    std::vector<uint32_t> first;
    ForEachSchedule(20, [&](uint64_t seed) {
      const std::vector<uint32_t> bits = BitsOf(RunLayer(layer).out);
      if (first.empty()) first = bits;
      EXPECT_EQ(bits, first) << "seed " << seed;
    });
  }
}

TEST(SparseFfn, NaNShowsInItsRow) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_K, DType::kF16}) {
    for (const bool gated : {true, false}) {
      SparseFfnLayer layer({.gate = dtype,
                            .up = dtype,
                            .down = dtype,
                            .n = 256,
                            .num_neurons = 40,
                            .num_tokens = 2,
                            .gated = gated});
      layer.x[256 + 9] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> out = RunLayer(layer).out;
      for (size_t j = 0; j < 256; ++j) {
        EXPECT_TRUE(std::isfinite(out[j]));
        EXPECT_TRUE(std::isnan(out[256 + j]));
      }
    }
  }
}

// A sum near a threshold may fall on either side of it: out alone is compared,
// in which that is small.
TEST(SparseFfnLongDraws, EqualsTheReference) {
  Random random(12);
  for (uint64_t draw = 0; draw < 40; ++draw) {
    const auto type = [&] {
      return kRowTypes[random.Below(std::size(kRowTypes))];
    };
    const ActivationInfo& info =
        Activations()[random.Below(Activations().size())];
    const SparseFfnShape shape = {
        .gate = type(),
        .up = type(),
        .down = type(),
        .n = 256 * (1 + random.Below(4)),
        .num_neurons = 1 + random.Below(150),
        .num_tokens = 1 + random.Below(8),
        .activation = info.activation,
        .rest_below = random.Uniform(-0.2f, 0.4f),
        .gated = info.needs_gate || random.Below(2) == 0,
        .has_bias = random.Below(2) == 0,
        .wanted_of_8 = 1 + random.Below(8)};
    SCOPED_TRACE(testing::Message()
                 << "draw " << draw << ": " << NameOf(shape.gate) << ' '
                 << NameOf(shape.up) << ' ' << NameOf(shape.down) << ' '
                 << info.name << ' ' << shape.num_tokens);
    const SparseFfnLayer layer(shape, draw);
    const Outcome outcome = RunLayer(layer);
    EXPECT_EQ(outcome.num_listed, layer.Listed().size());
    EXPECT_LT(Nmse(outcome.out, layer.Out()), 1e-11);
  }
}

#ifdef TC_CUDA_ON_HOST

// The law of bytes: a gate of each listed neuron, an up and a down of those
// that open, each byte once, for several rows as for one.
TEST(SparseFfn, ReadsTheBytesOfTheCostLaw) {
  for (const size_t num_tokens : {1, 3}) {
    cuda_on_host::Options options;
    options.count_sectors = true;
    cuda_on_host::SetOptions(options);
    // Rows begin and end with a sector.
    const SparseFfnLayer layer({.gate = DType::kQ4_0,
                                .up = DType::kQ4_0,
                                .down = DType::kQ4_0,
                                .n = 2048,
                                .num_neurons = 100,
                                .num_tokens = num_tokens});
    const SparseFfnOnDevice device(layer);
    const SparseFfnRun run(layer, device);
    Launch(run.args, nullptr);
    ASSERT_EQ(TakeFault(), "");
    std::vector<uint32_t> fired = run.fired.Read();
    size_t num_fired = 0;
    for (size_t w = 0; w < layer.set_words; ++w) {
      uint32_t any = 0;
      for (size_t t = 0; t < num_tokens; ++t) {
        any |= fired[t * layer.set_words + w];
      }
      num_fired += static_cast<size_t>(std::popcount(any));
    }
    const size_t listed = layer.Listed().size();
    ASSERT_GT(num_fired, listed / 3);
    ASSERT_LT(num_fired, listed);
    const size_t row_bytes = layer.up_offset;
    const auto hidden = cuda_on_host::GetTraffic("SparseHidden<kType, kT>",
                                                 device.records.get());
    EXPECT_EQ(hidden.bytes, (listed + num_fired) * row_bytes);
    EXPECT_EQ(hidden.sectors * 32, hidden.bytes);
    // A warp's scales, of 8 blocks, are half a sector.
    const auto down =
        cuda_on_host::GetTraffic("SparseDown<kType, kT>", device.records.get());
    EXPECT_EQ(down.sectors * 32, num_fired * (row_bytes + 64 * 2));
  }
  cuda_on_host::SetOptions({});
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
