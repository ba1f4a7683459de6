#include "kernels/cuda/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/test_mutants.h"
#include "kernels/cuda/test_rows.h"
#include "kernels/cuda/testing.h"

namespace thermocline::cuda {

std::span<const Mutant<decltype(&LaunchPredict)>> MutantsOfLaunchPredict();

namespace {

struct PredictShape {
  DType up, down;
  size_t width, rank, num_neurons, num_tokens;
  bool has_bias;
};

struct PredictCase {
  PredictShape shape;
  TestMatrix up, down;
  std::vector<float> up_bias, down_bias, x;
  float threshold = 0.25f;

  explicit PredictCase(const PredictShape& s) : PredictCase(s, Random(7)) {}
  PredictCase(const PredictShape& s, Random random)
      : shape(s),
        up(s.up, s.rank, s.width, random),
        down(s.down, s.num_neurons, s.rank, random),
        up_bias(RandomFloats(random, s.rank)),
        down_bias(RandomFloats(random, s.num_neurons)),
        x(RandomFloats(random, s.num_tokens * s.width)) {}

  // [T, rank]
  std::vector<double> Hidden() const {
    std::vector<double> hidden;
    for (size_t t = 0; t < shape.num_tokens; ++t) {
      const std::vector<double> seen =
          SeenX(shape.up, std::span(x).subspan(t * shape.width, shape.width));
      for (size_t r = 0; r < shape.rank; ++r) {
        const double bias = shape.has_bias ? double{up_bias[r]} : 0.0;
        hidden.push_back(std::fmax(up.Dot(r, seen) + bias, 0.0));
      }
    }
    return hidden;
  }
  double Score(size_t neuron, std::span<const double> hidden) const {
    return down.Dot(neuron, hidden) +
           (shape.has_bias ? double{down_bias[neuron]} : 0.0);
  }
};

struct PredictRun {
  DeviceArray<std::byte> up, down, scratch;
  DeviceArray<float> up_bias, down_bias, x, hidden;
  DeviceArray<uint32_t> sets;
  kernels::PredictArgs args;

  explicit PredictRun(const PredictCase& c)
      : up(c.up.rows),
        down(c.down.rows),
        scratch(kernels::QuantizedRowsBytes(
            std::max(c.shape.width, c.shape.rank), c.shape.num_tokens)),
        up_bias(c.up_bias),
        down_bias(c.down_bias),
        x(c.x),
        hidden(c.shape.num_tokens * c.shape.rank),
        sets(c.shape.num_tokens *
             kernels::DeviceSetWords(c.shape.num_neurons)) {
    args.up = c.up.On(up.get());
    args.down = c.down.On(down.get());
    args.up_bias = c.shape.has_bias ? up_bias.get() : nullptr;
    args.down_bias = c.shape.has_bias ? down_bias.get() : nullptr;
    args.threshold = c.threshold;
    args.num_tokens = static_cast<uint32_t>(c.shape.num_tokens);
    args.x = x.get();
    args.hidden = hidden.get();
    args.scratch = scratch.get();
    args.sets = sets.get();
  }
};

// What is wrong with the sets, given the device's hidden row; scores that are
// within rounding of the threshold may be on either side. Empty: nothing.
std::string WrongSet(const PredictCase& c, size_t t,
                     std::span<const float> hidden,
                     std::span<const uint32_t> set) {
  const std::vector<double> seen = SeenX(c.shape.down, hidden);
  size_t num_set = 0, num_near = 0;
  for (size_t i = 0; i < set.size() * 32; ++i) {
    const bool is_set = (set[i / 32] >> i % 32 & 1) != 0;
    num_set += is_set;
    const bool exists = i < c.shape.num_neurons;
    const double margin = exists ? c.Score(i, seen) - double{c.threshold} : -1;
    if (std::fabs(margin) < 1e-5) {
      ++num_near;
    } else if (is_set != (margin > 0)) {
      return "row " + std::to_string(t) + ", neuron " + std::to_string(i);
    }
  }
  if (num_near > 1) return "a useless test";
  const bool has_both = num_set > 0 && num_set < c.shape.num_neurons;
  return c.shape.num_neurons < 10 || has_both ? "" : "a useless threshold";
}

std::string RunPredict(const PredictCase& c, decltype(&LaunchPredict) launch) {
  const PredictRun run(c);
  launch(run.args, nullptr);
  if (const std::string fault = TakeFault(); !fault.empty()) return fault;
  const std::vector<float> hidden = run.hidden.Read();
  if (!(Nmse(hidden, c.Hidden()) < 1e-12)) return "wrong hidden";
  const std::vector<uint32_t> sets = run.sets.Read();
  const size_t words = kernels::DeviceSetWords(c.shape.num_neurons);
  for (size_t t = 0; t < c.shape.num_tokens; ++t) {
    const std::string wrong = WrongSet(
        c, t, std::span(hidden).subspan(t * c.shape.rank, c.shape.rank),
        std::span(sets).subspan(t * words, words));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST(Predict, EqualsTheReference) {
  for (const DType dtype : kRowTypes) {
    const size_t block = InfoOf(dtype).block_elems;
    for (const size_t num_tokens : {1, 3, 8}) {
      SCOPED_TRACE(testing::Message() << NameOf(dtype) << ", " << num_tokens);
      const PredictCase c({dtype, dtype, num_tokens == 1 ? 256u : 512u,
                           block == 1 ? 37 : block, num_tokens == 3 ? 33u : 70u,
                           num_tokens, num_tokens != 3});
      EXPECT_EQ(RunPredict(c, LaunchPredict), "");
    }
  }
  EXPECT_EQ(
      RunPredict(PredictCase({DType::kQ4_0, DType::kF16, 64, 40, 1, 2, false}),
                 LaunchPredict),
      "");
}

// Scores that are exactly the threshold: biases of that size, no weights.
std::string RunAtThreshold(decltype(&LaunchPredict) launch) {
  PredictCase c({DType::kF16, DType::kF16, 8, 8, 40, 1, true});
  std::ranges::fill(c.down.rows, std::byte{0});
  std::ranges::fill(c.down_bias, c.threshold);
  const PredictRun run(c);
  launch(run.args, nullptr);
  if (const std::string fault = TakeFault(); !fault.empty()) return fault;
  const std::vector<uint32_t> all = {0xffffffffu, 0xffu};
  return run.sets.Read() == all ? "" : "not all are wanted";
}

TEST(Predict, WantsWhatIsAtTheThreshold) {
  EXPECT_EQ(RunAtThreshold(LaunchPredict), "");
}

TEST(Predict, NoOrderOfThreadsChangesASet) {
  const PredictCase c({DType::kQ8_0, DType::kQ8_0, 64, 32, 70, 2, true});
  ForEachSchedule(20, [&](uint64_t seed) {
    EXPECT_EQ(RunPredict(c, LaunchPredict), "") << "seed " << seed;
  });
}

#ifdef TC_CUDA_ON_HOST

// The law of bytes: each row of both matrices once, for several rows as for
// one.
TEST(Predict, ReadsItsMatricesOnce) {
  cuda_on_host::Options options;
  options.count_sectors = true;
  cuda_on_host::SetOptions(options);
  const PredictCase c({DType::kF16, DType::kQ8_0, 64, 512, 70, 3, true});
  const PredictRun run(c);
  LaunchPredict(run.args, nullptr);
  ASSERT_EQ(TakeFault(), "");
  const auto up = cuda_on_host::GetTraffic("Gemv<kType, kT>", run.up.get());
  EXPECT_EQ(up.sectors * 32, c.up.rows.size());
  const auto down =
      cuda_on_host::GetTraffic("Predict<kType, kT>", run.down.get());
  EXPECT_EQ(down.sectors * 32, c.down.rows.size());
  cuda_on_host::SetOptions({});
}

TEST(Predict, MutantsAreNoticed) {
  const PredictCase c({DType::kQ8_0, DType::kQ8_0, 64, 32, 70, 2, true});
  cuda_on_host::SetOptions({});
  for (const auto& mutant : MutantsOfLaunchPredict()) {
    EXPECT_NE(RunPredict(c, mutant.launch) + RunAtThreshold(mutant.launch), "")
        << mutant.name;
  }
  cuda_on_host::SetOptions({});
  EXPECT_EQ(RunPredict(c, LaunchPredict), "");
  const auto calls = cuda_on_host::GetStats().ordering_calls;
  EXPECT_EQ(calls.size(), 1u);
  for (const std::string& call : calls) {
    cuda_on_host::Options without;
    without.dropped_call = call;
    cuda_on_host::SetOptions(without);
    EXPECT_NE(RunPredict(c, LaunchPredict), "") << call;
  }
  cuda_on_host::SetOptions({});
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
