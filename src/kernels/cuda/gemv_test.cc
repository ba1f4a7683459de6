#include "kernels/cuda/launch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/test_mutants.h"
#include "kernels/cuda/test_rows.h"
#include "kernels/cuda/testing.h"

namespace thermocline::cuda {

std::span<const Mutant<decltype(&LaunchGemv)>> MutantsOfLaunchGemv();

namespace {

struct GemvShape {
  size_t num_rows, n, num_tokens;
  bool has_bias, adds;
};

// A product on the host: its inputs, and what it has to be.
struct GemvCase {
  GemvShape shape;
  TestMatrix matrix;
  std::vector<float> x, bias, before;
  std::vector<double> expected;  // with x as the device rounds it
  std::vector<double> unrounded;

  GemvCase(DType dtype, const GemvShape& s, uint64_t seed = 1)
      : GemvCase(dtype, s, Random(seed)) {}
  GemvCase(DType dtype, const GemvShape& s, Random random)
      : shape(s),
        matrix(dtype, s.num_rows, s.n, random),
        x(RandomFloats(random, s.num_tokens * s.n)),
        bias(RandomFloats(random, s.num_rows)),
        before(RandomFloats(random, s.num_tokens * s.num_rows)) {
    for (size_t t = 0; t < s.num_tokens; ++t) {
      const std::span<const float> row = std::span(x).subspan(t * s.n, s.n);
      const std::vector<double> seen = SeenX(dtype, row);
      const std::vector<double> exact(row.begin(), row.end());
      for (size_t r = 0; r < s.num_rows; ++r) {
        const double rest = (s.has_bias ? double{bias[r]} : 0.0) +
                            (s.adds ? double{before[t * s.num_rows + r]} : 0.0);
        expected.push_back(matrix.Dot(r, seen) + rest);
        unrounded.push_back(matrix.Dot(r, exact) + rest);
      }
    }
  }
};

// One run of it.
struct GemvRun {
  DeviceArray<std::byte> rows;
  DeviceArray<float> x, bias, out;
  DeviceArray<std::byte> scratch;
  kernels::GemvArgs args;

  explicit GemvRun(const GemvCase& c)
      : rows(c.matrix.rows),
        x(c.x),
        bias(c.bias),
        out(c.before),
        scratch(kernels::QuantizedRowsBytes(c.shape.n, c.shape.num_tokens)) {
    args.weights = c.matrix.On(rows.get());
    args.bias = c.shape.has_bias ? bias.get() : nullptr;
    args.num_tokens = static_cast<uint32_t>(c.shape.num_tokens);
    args.x = x.get();
    args.adds = c.shape.adds;
    args.out = out.get();
    args.scratch = scratch.get();
  }
};

// Widths in blocks of the type; more than a warp takes at once, and odd ones.
// Rows of more than a block of warps, the last not full.
size_t WidthOf(DType dtype, size_t index) {
  if (IsFloat(dtype)) return std::vector<size_t>{1, 261, 520}[index];
  if (dtype == DType::kQ8_0 || dtype == DType::kQ4_0) {
    return std::vector<size_t>{32, 35 * 32, 17 * 32}[index];
  }
  return std::vector<size_t>{256, 5 * 256, 2 * 256}[index];
}

TEST(Gemv, EqualsTheReference) {
  for (const DType dtype : kRowTypes) {
    for (size_t num_tokens = 1; num_tokens <= 8; ++num_tokens) {
      SCOPED_TRACE(testing::Message() << NameOf(dtype) << ", " << num_tokens);
      const GemvShape shape = {num_tokens == 2 ? 1u : 6u,
                               WidthOf(dtype, num_tokens % 3), num_tokens,
                               num_tokens % 2 == 0, num_tokens % 4 < 2};
      const GemvCase c(dtype, shape, num_tokens);
      const GemvRun run(c);
      LaunchGemv(run.args, nullptr);
      ASSERT_EQ(TakeFault(), "");
      const std::vector<float> out = run.out.Read();
      EXPECT_LT(Nmse(out, c.expected), 1e-12);
      EXPECT_LT(Nmse(out, c.unrounded), IsFloat(dtype) ? 1e-6 : 1e-3);
    }
  }
}

TEST(Gemv, ARowDoesNotDependOnThoseBesideIt) {
  for (const DType dtype : kRowTypes) {
    SCOPED_TRACE(NameOf(dtype));
    const GemvCase c(dtype, {3, WidthOf(dtype, 1), 3, true, false});
    const GemvRun all(c);
    LaunchGemv(all.args, nullptr);
    GemvRun one(c);
    one.args.num_tokens = 1;
    one.args.x = all.x.get() + 2 * c.shape.n;
    if (c.shape.n % 4 != 0) continue;  // rows of x are not aligned
    LaunchGemv(one.args, nullptr);
    ASSERT_EQ(TakeFault(), "");
    const std::vector<float> a = all.out.Read(), b = one.out.Read();
    for (size_t r = 0; r < 3; ++r) EXPECT_EQ(a[6 + r], b[r]);
  }
}

TEST(Gemv, NoOrderOfThreadsChangesABit) {
  for (const DType dtype : kRowTypes) {
    const GemvCase c(dtype, {5, WidthOf(dtype, 2), 2, true, true});
    std::vector<float> first;
    ForEachSchedule(20, [&](uint64_t seed) {
      const GemvRun run(c);
      LaunchGemv(run.args, nullptr);
      ASSERT_EQ(TakeFault(), "") << "seed " << seed;
      const std::vector<float> out = run.out.Read();
      if (first.empty()) first = out;
      EXPECT_EQ(out, first) << NameOf(dtype) << ", seed " << seed;
    });
  }
}

// Bits that every GPU has to come to as well.
TEST(Gemv, HasTheseBits) {
  constexpr uint64_t kHashes[] = {0xedf92ec59a364b87, 0x91d8f45c5a11331a,
                                  0xd6abc1d12732e879, 0x4440ecb0f5136e66,
                                  0xbca2cf213634c9c5, 0x90ed8eec769f961a,
                                  0x36386bc2b3527319};
  for (size_t i = 0; i < std::size(kRowTypes); ++i) {
    const GemvCase c(kRowTypes[i],
                     {3, WidthOf(kRowTypes[i], 1), 2, true, true});
    const GemvRun run(c);
    LaunchGemv(run.args, nullptr);
    ASSERT_EQ(TakeFault(), "");
    EXPECT_EQ(HashOf(run.out.Read()), kHashes[i])
        << NameOf(kRowTypes[i]) << std::hex << ": 0x" << HashOf(run.out.Read());
  }
}

TEST(Gemv, NaNAndInfinityShow) {
  for (const DType dtype : kRowTypes) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
      GemvCase c(dtype, {2, WidthOf(dtype, 2), 2, false, false});
      c.x[c.shape.n + 1] = bad;
      const GemvRun run(c);
      LaunchGemvRelu(run.args, nullptr);
      ASSERT_EQ(TakeFault(), "");
      const std::vector<float> out = run.out.Read();
      EXPECT_TRUE(std::isfinite(out[0]) && std::isfinite(out[1]));
      // Infinity times a negative weight is below 0.
      if (std::isnan(bad) || !IsFloat(dtype)) {
        EXPECT_FALSE(std::isfinite(out[2]) || std::isfinite(out[3]))
            << NameOf(dtype);
      }
    }
  }
}

TEST(Gemv, ReluCutsWhatIsNegative) {
  const GemvCase c(DType::kF16, {9, 40, 2, true, false});
  const GemvRun run(c);
  LaunchGemvRelu(run.args, nullptr);
  ASSERT_EQ(TakeFault(), "");
  std::vector<double> expected = c.expected;
  size_t num_cut = 0;
  for (double& value : expected) {
    num_cut += value < 0;
    value = std::fmax(value, 0.0);
  }
  EXPECT_TRUE(num_cut > 0 && num_cut < expected.size());
  EXPECT_LT(Nmse(run.out.Read(), expected), 1e-12);
}

TEST(GemvLongDraws, EqualsTheReference) {
  Random random(11);
  for (uint64_t draw = 0; draw < 150; ++draw) {
    const DType dtype = kRowTypes[random.Below(std::size(kRowTypes))];
    const size_t block = InfoOf(dtype).block_elems;
    const size_t n = (1 + random.Below(1500 / block)) * block;
    const GemvShape shape = {1 + random.Below(20), n, 1 + random.Below(8),
                             random.Below(2) == 0, random.Below(2) == 0};
    SCOPED_TRACE(testing::Message() << NameOf(dtype) << ' ' << shape.num_rows
                                    << ' ' << n << ' ' << shape.num_tokens);
    const GemvCase c(dtype, shape, draw);
    const GemvRun run(c);
    LaunchGemv(run.args, nullptr);
    ASSERT_EQ(TakeFault(), "");
    EXPECT_LT(Nmse(run.out.Read(), c.expected), 1e-11);
  }
}

TEST(Gemv, KnowsItsTypes) {
  for (const DType dtype : kRowTypes) EXPECT_TRUE(CanLaunch(dtype));
  EXPECT_FALSE(CanLaunch(DType::kF32));
  EXPECT_FALSE(CanLaunch(DType::kQ5_0));
}

#ifdef TC_CUDA_ON_HOST

// The law of bytes: each byte once, whatever the number of rows of x. Rows of
// these lengths begin and end with a sector, and so do a warp's loads but for
// what says how many sectors are used a second time.
TEST(Gemv, ReadsTheMatrixOnce) {
  struct Row {
    DType dtype;
    size_t n, sectors_again;
  };
  // Q6_K: eight scales d of a row share a sector, of which a warp wants four.
  const Row rows[] = {{DType::kF16, 512, 0},      {DType::kBF16, 512, 0},
                      {DType::kQ8_0, 32 * 32, 0}, {DType::kQ4_0, 64 * 32, 0},
                      {DType::kQ4_K, 2048, 0},    {DType::kQ5_K, 2048, 0},
                      {DType::kQ6_K, 4096, 3}};
  for (const Row& row : rows) {
    for (const size_t num_tokens : {1, 3}) {
      SCOPED_TRACE(testing::Message() << NameOf(row.dtype) << num_tokens);
      cuda_on_host::Options options;
      options.count_sectors = true;
      cuda_on_host::SetOptions(options);
      const GemvCase c(row.dtype, {5, row.n, num_tokens, false, false});
      ASSERT_EQ(c.matrix.row_bytes % 32, 0u);
      const GemvRun run(c);
      LaunchGemv(run.args, nullptr);
      ASSERT_EQ(TakeFault(), "");
      const auto traffic =
          cuda_on_host::GetTraffic("Gemv<kType, kT>", run.rows.get());
      EXPECT_EQ(traffic.sectors * 32,
                5 * (c.matrix.row_bytes + row.sectors_again * 32));
    }
  }
  cuda_on_host::SetOptions({});
}

TEST(Gemv, MutantsAreNoticed) {
  const GemvCase cases[] = {
      GemvCase(DType::kF16, {6, 261, 1, true, true}),
      GemvCase(DType::kQ4_0, {6, 35 * 32, 3, true, true}),
      GemvCase(DType::kQ4_0, {6, 35 * 32, 3, false, false})};
  cuda_on_host::SetOptions({});
  for (const auto& mutant : MutantsOfLaunchGemv()) {
    bool is_noticed = false;
    for (const GemvCase& c : cases) {
      const GemvRun run(c);
      mutant.launch(run.args, nullptr);
      const bool is_right =
          TakeFault() == "" && Nmse(run.out.Read(), c.expected) < 1e-12;
      is_noticed = is_noticed || !is_right;
    }
    EXPECT_TRUE(is_noticed) << mutant.name;
  }
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
