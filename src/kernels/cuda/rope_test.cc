#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/test_launch.h"

namespace thermocline::cuda {

using kernels::RopeArgs;
std::span<const Mutant<LaunchFn<RopeArgs>>> MutantsOfRope();

namespace {

struct RopeCase {
  RopeKind kind;
  size_t num_tokens, num_heads, width, num_pairs;
  std::vector<float> heads, cosines, sines;

  RopeCase(RopeKind rope_kind, size_t tokens, size_t heads_each,
           size_t head_width, size_t pairs)
      : kind(rope_kind),
        num_tokens(tokens),
        num_heads(heads_each),
        width(head_width),
        num_pairs(pairs) {
    Random random(num_tokens * 1000 + width);
    heads = RandomFloats(random, num_tokens * num_heads * width, 4.0f);
    // Any factors will do: a rotation needs no more.
    cosines = RandomFloats(random, num_tokens * num_pairs);
    sines = RandomFloats(random, num_tokens * num_pairs);
  }

  std::vector<double> Right() const {
    std::vector<double> out(heads.begin(), heads.end());
    for (size_t head = 0;
         kind != RopeKind::kNone && head < num_tokens * num_heads; ++head) {
      for (size_t i = 0; i < num_pairs; ++i) {
        const bool is_neox = kind == RopeKind::kNeox;
        double& first = out[head * width + (is_neox ? i : 2 * i)];
        double& second =
            out[head * width + (is_neox ? i + num_pairs : 2 * i + 1)];
        const double a = first, b = second;
        const size_t angle = head / num_heads * num_pairs + i;
        first = a * cosines[angle] - b * sines[angle];
        second = a * sines[angle] + b * cosines[angle];
      }
    }
    return out;
  }

  // An empty result: the device failed.
  std::vector<float> Run(LaunchFn<RopeArgs> launch) const {
    const DeviceArray<float> rows(heads), cos(cosines), sin(sines);
    RopeArgs args;
    args.kind = kind;
    args.num_tokens = static_cast<uint32_t>(num_tokens);
    args.num_heads = static_cast<uint32_t>(num_heads);
    args.head_width = static_cast<uint32_t>(width);
    args.num_pairs = static_cast<uint32_t>(num_pairs);
    args.cos = cos.get();
    args.sin = sin.get();
    args.heads = rows.get();
    launch(args, nullptr);
    if (!TakeFault().empty()) return {};
    return rows.Read();
  }

  bool IsRight(const std::vector<float>& out) const {
    return out.size() == heads.size() && Nmse(out, Right()) < 1e-13;
  }
};

TEST(Rope, EqualsTheReferenceAtOddSizes) {
  for (const RopeKind kind :
       {RopeKind::kNone, RopeKind::kNorm, RopeKind::kNeox}) {
    for (const RopeCase& rope :
         {RopeCase(kind, 1, 1, 2, 1), RopeCase(kind, 3, 5, 80, 16),
          RopeCase(kind, 8, 3, 64, 32), RopeCase(kind, 2, 7, 129, 41)}) {
      EXPECT_TRUE(rope.IsRight(rope.Run(Launch)))
          << NameOf(kind) << ", " << rope.num_heads << " heads of "
          << rope.width;
    }
  }
}

TEST(Rope, ARowIsTheSameAlone) {
  const RopeCase all(RopeKind::kNeox, 8, 3, 64, 20);
  const std::vector<float> out = all.Run(Launch);
  RopeCase alone = all;
  alone.num_tokens = 1;
  alone.heads = RowOf(all.heads, 5, 3 * 64);
  alone.cosines = RowOf(all.cosines, 5, 20);
  alone.sines = RowOf(all.sines, 5, 20);
  EXPECT_EQ(alone.Run(Launch), RowOf(out, 5, 3 * 64));
}

TEST(Rope, NoOrderOfThreadsChangesABit) {
  const RopeCase rope(RopeKind::kNorm, 2, 5, 64, 32);
  ExpectSameBits(20, [&] { return rope.Run(Launch); });
}

TEST(Rope, ItsBitsAreAConstant) {
  const RopeCase rope(RopeKind::kNeox, 2, 3, 64, 32);
  EXPECT_EQ(HashOf(rope.Run(Launch)), 2642337380474418633u);
}

TEST(Rope, NanShowsInItsPair) {
  RopeCase rope(RopeKind::kNorm, 1, 2, 8, 4);
  rope.heads[10] = kNan;
  const std::vector<float> out = rope.Run(Launch);
  ASSERT_EQ(out.size(), 16u);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(std::isnan(out[i]), i / 2 == 5) << i;
  }
}

#ifdef TC_CUDA_ON_HOST

bool IsRopeRight(LaunchFn<RopeArgs> launch) {
  static const RopeCase norm(RopeKind::kNorm, 2, 3, 100, 47);
  static const RopeCase neox(RopeKind::kNeox, 2, 3, 100, 47);
  return norm.IsRight(norm.Run(launch)) && neox.IsRight(neox.Run(launch));
}

TEST(Rope, MutantsAreNoticed) {
  ExpectAllNoticed<RopeArgs>(MutantsOfRope(), 0, 0, 2, IsRopeRight);
}

TEST(RopeLongDraws, MutantsAreNoticedUnderEverySeed) {
  ExpectAllNoticed<RopeArgs>(MutantsOfRope(), 0, 2, 8, IsRopeRight);
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
