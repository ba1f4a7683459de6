#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/test_launch.h"

namespace thermocline::cuda {

using kernels::ActivateArgs;
using kernels::AddRowsScaledArgs;
std::span<const Mutant<LaunchFn<ActivateArgs>>> MutantsOfActivate();
std::span<const Mutant<LaunchFn<AddRowsScaledArgs>>> MutantsOfAddRowsScaled();

namespace {

double ActivatedRight(Activation activation, double threshold, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x *
             (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::kFatRelu:
      return x < threshold ? 0 : x;
    case Activation::kRelu2:
      return x < 0 ? 0 : x * x;
    case Activation::kRelu:
    case Activation::kDRelu:
      break;
  }
  return x < 0 ? 0 : x;
}

struct ActivateCase {
  Activation activation;
  bool has_gate;
  std::vector<float> gate, up;
  float threshold = 0.5f;

  ActivateCase(Activation f, bool is_gated, size_t count)
      : activation(f), has_gate(is_gated) {
    Random random(count);
    gate = RandomFloats(random, count, 8.0f);
    up = RandomFloats(random, count, 8.0f);
  }

  std::vector<double> Right() const {
    std::vector<double> out;
    for (size_t i = 0; i < up.size(); ++i) {
      if (!has_gate) {
        out.push_back(ActivatedRight(activation, threshold, up[i]));
        continue;
      }
      const bool is_drelu = activation == Activation::kDRelu;
      const double factor = is_drelu && up[i] < 0 ? 0 : up[i];
      out.push_back(ActivatedRight(activation, threshold, gate[i]) * factor);
    }
    return out;
  }

  // Into memory of its own, or over the gate or up. Empty: the device failed.
  enum class Into { kOut, kGate, kUp };
  std::vector<float> Run(LaunchFn<ActivateArgs> launch,
                         Into into = Into::kOut) const {
    const DeviceArray<float> gates(gate), ups(up), out(up.size());
    const DeviceArray<float>& to = into == Into::kOut    ? out
                                   : into == Into::kGate ? gates
                                                         : ups;
    ActivateArgs args;
    args.activation = activation;
    args.threshold = threshold;
    args.count = static_cast<uint32_t>(up.size());
    args.gate = has_gate ? gates.get() : nullptr;
    args.up = ups.get();
    args.out = to.get();
    launch(args, nullptr);
    if (!TakeFault().empty()) return {};
    return to.Read();
  }

  bool IsRight(const std::vector<float>& out) const {
    return out.size() == up.size() && Nmse(out, Right()) < 1e-12;
  }
};

TEST(Activate, EqualsTheReferenceForAllActivations) {
  for (const ActivationInfo& info : Activations()) {
    for (const bool has_gate : {true, false}) {
      if (info.needs_gate && !has_gate) continue;
      for (const size_t count : {1, 33, 1000}) {
        const ActivateCase one(info.activation, has_gate, count);
        const std::vector<float> out = one.Run(Launch);
        EXPECT_TRUE(one.IsRight(out)) << info.name << " of " << count;
        EXPECT_EQ(one.Run(Launch, ActivateCase::Into::kUp), out);
        if (!has_gate) continue;
        EXPECT_EQ(one.Run(Launch, ActivateCase::Into::kGate), out);
      }
    }
  }
}

// The smooth ones to the last digits, small values too.
TEST(Activate, SmoothOnesKeepTheirDigits) {
  for (const Activation activation : {Activation::kSilu, Activation::kGelu}) {
    ActivateCase one(activation, false, 1);
    one.up.clear();
    for (float x = -5.0f; x < 12.0f; x += 0.0371f) one.up.push_back(x);
    for (float x = 1e-30f; x < 1.0f; x *= 3) one.up.push_back(-x);
    const std::vector<float> out = one.Run(Launch);
    const std::vector<double> right = one.Right();
    ASSERT_EQ(out.size(), right.size());
    for (size_t i = 0; i < right.size(); ++i) {
      EXPECT_NEAR(out[i], right[i], std::fabs(right[i]) * 4e-6) << one.up[i];
    }
  }
}

TEST(Activate, TheirBitsAreAConstant) {
  std::vector<float> all;
  for (const ActivationInfo& info : Activations()) {
    const ActivateCase one(info.activation, true, 500);
    for (const float value : one.Run(Launch)) all.push_back(value);
  }
  EXPECT_EQ(HashOf(all), 16346845457566293249u);
}

TEST(Activate, NanAndInfinityShow) {
  for (const ActivationInfo& info : Activations()) {
    ActivateCase one(info.activation, true, 6);
    one.gate = {kNan, 1.0f, kInfinity, 1.0f, -kInfinity, 1.0f};
    one.up = {1.0f, kNan, 1.0f, kInfinity, 1.0f, 1.0f};
    const std::vector<float> out = one.Run(Launch);
    ASSERT_EQ(out.size(), 6u);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_FALSE(std::isfinite(out[i])) << info.name << " " << i;
    }
    EXPECT_TRUE(std::isfinite(out[5]));
  }
}

struct AddCase {
  size_t num_tokens, n;
  bool has_factors;
  std::vector<float> x, out, factors;

  AddCase(size_t tokens, size_t width, bool is_scaled)
      : num_tokens(tokens), n(width), has_factors(is_scaled) {
    Random random(n);
    x = RandomFloats(random, num_tokens * n);
    out = RandomFloats(random, num_tokens * n);
    factors = RandomFloats(random, num_tokens, 2.0f);
  }

  std::vector<double> Right() const {
    std::vector<double> sum(out.begin(), out.end());
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += (has_factors ? double{factors[i / n]} : 1.0) * x[i];
    }
    return sum;
  }

  std::vector<float> Run(LaunchFn<AddRowsScaledArgs> launch) const {
    const DeviceArray<float> rows(x), scales(factors), sums(out);
    AddRowsScaledArgs args;
    args.num_tokens = static_cast<uint32_t>(num_tokens);
    args.n = static_cast<uint32_t>(n);
    args.x = rows.get();
    args.factors = has_factors ? scales.get() : nullptr;
    args.out = sums.get();
    launch(args, nullptr);
    if (!TakeFault().empty()) return {};
    return sums.Read();
  }

  bool IsRight(const std::vector<float>& sums) const {
    return sums.size() == x.size() && Nmse(sums, Right()) < 1e-13;
  }
};

TEST(AddRowsScaled, EqualsTheReferenceAtOddSizes) {
  for (const size_t num_tokens : {1, 3, 8}) {
    for (const size_t n : {1, 100, 257, 600}) {
      for (const bool has_factors : {true, false}) {
        const AddCase add(num_tokens, n, has_factors);
        EXPECT_TRUE(add.IsRight(add.Run(Launch))) << num_tokens << " x " << n;
      }
    }
  }
}

TEST(AddRowsScaled, NanShowsWhereItIsAlone) {
  AddCase add(2, 40, true);
  add.x[45] = kNan;
  const std::vector<float> sums = add.Run(Launch);
  ASSERT_EQ(sums.size(), 80u);
  for (size_t i = 0; i < 80; ++i) EXPECT_EQ(std::isnan(sums[i]), i == 45) << i;
}

TEST(Activate, NoOrderOfThreadsChangesABit) {
  const ActivateCase gelu(Activation::kGelu, true, 700);
  const AddCase add(3, 300, true);
  ExpectSameBits(20, [&] { return gelu.Run(Launch); });
  ExpectSameBits(20, [&] { return add.Run(Launch); });
}

#ifdef TC_CUDA_ON_HOST

bool IsActivateRight(LaunchFn<ActivateArgs> launch) {
  for (const ActivationInfo& info : Activations()) {
    const ActivateCase gated(info.activation, true, 300);
    if (!gated.IsRight(gated.Run(launch))) return false;
    if (info.needs_gate) continue;
    const ActivateCase plain(info.activation, false, 300);
    if (!plain.IsRight(plain.Run(launch))) return false;
  }
  return true;
}

bool IsAddRight(LaunchFn<AddRowsScaledArgs> launch) {
  const AddCase scaled(3, 300, true), plain(3, 300, false);
  return scaled.IsRight(scaled.Run(launch)) && plain.IsRight(plain.Run(launch));
}

TEST(Activate, MutantsAreNoticed) {
  ExpectAllNoticed<ActivateArgs>(MutantsOfActivate(), 0, 0, 1, IsActivateRight);
}

TEST(AddRowsScaled, MutantsAreNoticed) {
  ExpectAllNoticed<AddRowsScaledArgs>(MutantsOfAddRowsScaled(), 0, 0, 2,
                                      IsAddRight);
}

TEST(ActivateLongDraws, MutantsAreNoticedUnderEverySeed) {
  ExpectAllNoticed<ActivateArgs>(MutantsOfActivate(), 0, 1, 4, IsActivateRight);
  ExpectAllNoticed<AddRowsScaledArgs>(MutantsOfAddRowsScaled(), 0, 2, 8,
                                      IsAddRight);
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
