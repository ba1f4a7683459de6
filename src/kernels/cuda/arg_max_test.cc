#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/test_launch.h"

namespace thermocline::cuda {

using kernels::ArgMaxArgs;
std::span<const Mutant<LaunchFn<ArgMaxArgs>>> MutantsOfArgMax();

namespace {

// Empty: the device failed.
std::vector<uint32_t> ArgMaxOf(const std::vector<float>& x, size_t num_tokens,
                               LaunchFn<ArgMaxArgs> launch = Launch) {
  const DeviceArray<float> rows(x);
  const DeviceArray<uint32_t> out(num_tokens);
  ArgMaxArgs args;
  args.num_tokens = static_cast<uint32_t>(num_tokens);
  args.n = static_cast<uint32_t>(x.size() / num_tokens);
  args.x = rows.get();
  args.out = out.get();
  launch(args, nullptr);
  if (!TakeFault().empty()) return {};
  return out.Read();
}

std::vector<uint32_t> Right(const std::vector<float>& x, size_t num_tokens) {
  const size_t n = x.size() / num_tokens;
  std::vector<uint32_t> out;
  for (size_t row = 0; row < num_tokens; ++row) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; ++i) {
      if (x[row * n + i] > x[row * n + best]) best = i;
    }
    out.push_back(best);
  }
  return out;
}

TEST(ArgMax, EqualsTheReferenceAtOddSizes) {
  Random random(1);
  for (const size_t num_tokens : {1, 5}) {
    for (const size_t n : {1, 31, 1024, 2500}) {
      const std::vector<float> x = RandomFloats(random, num_tokens * n);
      EXPECT_EQ(ArgMaxOf(x, num_tokens), Right(x, num_tokens)) << n;
    }
  }
}

TEST(ArgMax, TakesTheFirstOfEquals) {
  std::vector<float> x(3000, -2.0f);
  EXPECT_EQ(ArgMaxOf(x, 1), std::vector<uint32_t>{0});
  x[2999] = x[1700] = x[700] = -1.0f;
  EXPECT_EQ(ArgMaxOf(x, 1), std::vector<uint32_t>{700});
  x[1900] = 0.0f;
  x[1100] = -0.0f;
  EXPECT_EQ(ArgMaxOf(x, 1), std::vector<uint32_t>{1100});
  EXPECT_EQ(ArgMaxOf({-kInfinity, -kInfinity}, 1), std::vector<uint32_t>{0});
}

TEST(ArgMax, NanCountsAsLargest) {
  std::vector<float> x(2100, 1.0f);
  x[40] = kInfinity;
  x[2050] = -kNan;
  x[2060] = kNan;
  EXPECT_EQ(ArgMaxOf(x, 1), std::vector<uint32_t>{2050});
}

#ifdef TC_CUDA_ON_HOST

// Rows of two rounds whose largest stand in several warps.
bool IsArgMaxRight(LaunchFn<ArgMaxArgs> launch) {
  Random random(7);
  const std::vector<float> x = RandomFloats(random, 2 * 1500);
  if (ArgMaxOf(x, 2, launch) != Right(x, 2)) return false;
  std::vector<float> equal(1500, -0.5f);
  equal[1300] = equal[300] = 0.0f;
  equal[200] = -0.0f;
  if (ArgMaxOf(equal, 1, launch) != std::vector<uint32_t>{200}) return false;
  equal[1333] = kNan;
  return ArgMaxOf(equal, 1, launch) == std::vector<uint32_t>{1333};
}

TEST(ArgMax, NoOrderOfThreadsChangesIt) {
  ForEachSchedule(20, [](uint64_t seed) {
    EXPECT_TRUE(IsArgMaxRight(Launch)) << "seed " << seed;
  });
}

TEST(ArgMax, MutantsAreNoticed) {
  ExpectAllNoticed<ArgMaxArgs>(MutantsOfArgMax(), 1, 0, 2, IsArgMaxRight);
}

TEST(ArgMaxLongDraws, MutantsAreNoticedUnderEverySeed) {
  ExpectAllNoticed<ArgMaxArgs>(MutantsOfArgMax(), 1, 2, 8, IsArgMaxRight);
}

TEST(ArgMax, ReadsTheBytesOfTheCostLaw) {
  const DeviceArray<float> x(std::vector<float>(2 * 2048, 1.0f));
  const DeviceArray<uint32_t> out(2);
  ArgMaxArgs args;
  args.num_tokens = 2;
  args.n = 2048;
  args.x = x.get();
  args.out = out.get();
  CountSectors([&] { Launch(args, nullptr); });
  EXPECT_EQ(cuda_on_host::GetTraffic("ArgMax", x.get()).sectors * 32,
            2u * 2048 * sizeof(float));
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
