#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/test_launch.h"

namespace thermocline::cuda {

using kernels::NormArgs;
std::span<const Mutant<LaunchFn<NormArgs>>> MutantsOfNorm();

namespace {

struct NormCase {
  NormKind kind;
  bool has_bias;
  size_t num_rows, n;
  std::vector<float> x, weight, bias;

  NormCase(NormKind norm_kind, bool is_biased, size_t rows, size_t width)
      : kind(norm_kind), has_bias(is_biased), num_rows(rows), n(width) {
    Random random(num_rows * 10000 + n);
    x = RandomFloats(random, num_rows * n, 3.0f);
    for (float& value : x) value += 0.25f;
    weight = RandomFloats(random, n);
    bias = RandomFloats(random, n);
  }

  std::vector<double> Right() const {
    std::vector<double> out;
    for (size_t row = 0; row < num_rows; ++row) {
      const std::span<const float> values(&x[row * n], n);
      double mean = 0, squares = 0;
      for (const float v : values) mean += v / static_cast<double>(n);
      if (kind == NormKind::kRms) mean = 0;
      for (const float v : values) squares += (v - mean) * (v - mean);
      const double scale =
          1 / std::sqrt(squares / static_cast<double>(n) + 1e-5f);
      for (size_t i = 0; i < n; ++i) {
        out.push_back((values[i] - mean) * scale * weight[i] +
                      (has_bias ? bias[i] : 0.0f));
      }
    }
    return out;
  }

  // In place, or not.
  std::vector<float> Run(LaunchFn<NormArgs> launch,
                         bool in_place = false) const {
    const DeviceArray<float> rows(x), weights(weight), biases(bias);
    const DeviceArray<float> apart(x.size());
    NormArgs args;
    args.kind = kind;
    args.epsilon = 1e-5f;
    args.num_rows = static_cast<uint32_t>(num_rows);
    args.n = static_cast<uint32_t>(n);
    args.x = rows.get();
    args.weight = weights.get();
    args.bias = has_bias ? biases.get() : nullptr;
    args.out = in_place ? rows.get() : apart.get();
    launch(args, nullptr);
    EXPECT_EQ(TakeFault(), "");
    return in_place ? rows.Read() : apart.Read();
  }
};

TEST(Norm, EqualsTheReferenceAtOddSizes) {
  constexpr size_t kSizes[][2] = {{1, 1},   {3, 7},    {70, 64},  {5, 80},
                                  {9, 129}, {2, 1024}, {3, 1025}, {8, 2500}};
  for (const auto& [num_rows, n] : kSizes) {
    for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
      SCOPED_TRACE(testing::Message() << num_rows << " rows of " << n);
      const NormCase norm(kind, num_rows % 2 == 0, num_rows, n);
      const std::vector<float> out = norm.Run(Launch);
      EXPECT_LT(Nmse(out, norm.Right()), 1e-12);
      EXPECT_EQ(norm.Run(Launch, true), out);
    }
  }
}

TEST(Norm, ARowIsTheSameAlone) {
  for (const size_t n : {96, 1100}) {
    const NormCase all(NormKind::kLayer, true, 6, n);
    const std::vector<float> out = all.Run(Launch);
    for (size_t row = 0; row < 6; ++row) {
      NormCase alone = all;
      alone.num_rows = 1;
      alone.x = RowOf(all.x, row, n);
      EXPECT_EQ(alone.Run(Launch), RowOf(out, row, n));
    }
  }
}

TEST(Norm, NoOrderOfThreadsChangesABit) {
  const NormCase norm(NormKind::kLayer, true, 3, 1500);
  ExpectSameBits(20, [&] { return norm.Run(Launch); });
}

TEST(Norm, ItsBitsAreAConstant) {
  const NormCase heads(NormKind::kRms, false, 5, 96);
  EXPECT_EQ(HashOf(heads.Run(Launch)), 13661836290125901199u);
  const NormCase rows(NormKind::kLayer, true, 2, 1500);
  EXPECT_EQ(HashOf(rows.Run(Launch)), 9158492474623707516u);
}

// Also where finite elements have no finite sum: a row of zeros would be taken
// for a result.
TEST(Norm, NanAndInfinityShowInTheirRowAlone) {
  for (const float bad : {kNan, kInfinity, -kInfinity, 1e25f}) {
    for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
      for (const size_t n : {40, 1200}) {
        NormCase norm(kind, false, 3, n);
        norm.x[n + n / 2] = bad;
        const std::vector<float> out = norm.Run(Launch);
        EXPECT_FALSE(HasNan(RowOf(out, 0, n)));
        EXPECT_TRUE(HasNan(RowOf(out, 1, n))) << bad << " of " << n;
        EXPECT_FALSE(HasNan(RowOf(out, 2, n)));
      }
    }
  }
}

#ifdef TC_CUDA_ON_HOST

// Rows of a warp each and of a block each, whose loops go round more than once.
bool IsNormRight(LaunchFn<NormArgs> launch) {
  static const NormCase heads(NormKind::kRms, true, 5, 70);
  static const NormCase rows(NormKind::kLayer, true, 2, 1100);
  static const std::vector<double> right[] = {heads.Right(), rows.Right()};
  int index = 0;
  for (const NormCase* norm : {&heads, &rows}) {
    const DeviceArray<float> x(norm->x), weight(norm->weight), bias(norm->bias),
        out(norm->x.size());
    NormArgs args;
    args.kind = norm->kind;
    args.epsilon = 1e-5f;
    args.num_rows = static_cast<uint32_t>(norm->num_rows);
    args.n = static_cast<uint32_t>(norm->n);
    args.x = x.get();
    args.weight = weight.get();
    args.bias = bias.get();
    args.out = out.get();
    launch(args, nullptr);
    if (!TakeFault().empty()) return false;
    if (!(Nmse(out.Read(), right[index++]) < 1e-12)) return false;
  }
  return true;
}

TEST(Norm, MutantsAreNoticed) {
  ExpectAllNoticed<NormArgs>(MutantsOfNorm(), 2, 0, 2, IsNormRight);
}

TEST(NormLongDraws, MutantsAreNoticedUnderEverySeed) {
  ExpectAllNoticed<NormArgs>(MutantsOfNorm(), 2, 2, 8, IsNormRight);
}

TEST(Norm, ReadsTheBytesOfTheCostLaw) {
  const size_t num_rows = 3, n = 2048;
  const NormCase norm(NormKind::kLayer, true, num_rows, n);
  const DeviceArray<float> x(norm.x), weight(norm.weight), out(norm.x.size());
  NormArgs args;
  args.kind = NormKind::kLayer;
  args.num_rows = num_rows;
  args.n = n;
  args.x = x.get();
  args.weight = weight.get();
  args.out = out.get();
  CountSectors([&] { Launch(args, nullptr); });
  const size_t row_bytes = n * sizeof(float);
  const auto traffic = [](const void* memory) {
    return cuda_on_host::GetTraffic("Norm<kLongRowThreads>", memory).sectors *
           32;
  };
  EXPECT_EQ(traffic(x.get()), 3 * num_rows * row_bytes);
  EXPECT_EQ(traffic(weight.get()), num_rows * row_bytes);
  EXPECT_EQ(traffic(out.get()), num_rows * row_bytes);
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
