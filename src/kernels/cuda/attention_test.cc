#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/test_attention.h"

namespace thermocline::cuda {

using kernels::DecodeAttentionArgs;
std::span<const Mutant<LaunchFn<DecodeAttentionArgs>>>
MutantsOfDecodeAttention();

namespace {

bool IsAttentionRight(const AttentionCase& attention,
                      const std::vector<float>& out) {
  const std::vector<double> right = attention.Right();
  return out.size() == right.size() && Nmse(out, right) < 1e-11;
}

// Groups of one head and more than a block takes; pieces that are not full,
// pages neither; windows that begin in a piece, and leave whole ones out.
const AttentionShape kAttentionShapes[] = {
    {1, 1, 32, 32, {1}, {}},
    {2, 1, 64, 64, {300}, {}},
    {1, 2, 128, 128, {257, 256, 64}, {}},
    {2, 3, 80, 96, {65, 130}, {64, 0}},
    {1, 4, 40, 136, {520}, {}, 5.0f},
    {1, 7, 256, 64, {70}, {3}},
    {1, 11, 56, 256, {90}, {}},
    {1, 8, 256, 256, {33}, {}, 2.0f},
    {1,
     2,
     32,
     32,
     {1, 2, 63, 64, 65, 300, 600, 700},
     {0, 1, 0, 63, 0, 299, 520, 100}},
};

TEST(DecodeAttention, EqualsTheReferenceAtOddSizes) {
  for (const AttentionShape& shape : kAttentionShapes) {
    const AttentionCase attention(shape);
    EXPECT_TRUE(IsAttentionRight(attention, attention.Run(Launch)))
        << shape.num_kv_heads << " of " << shape.group << " heads, widths "
        << shape.k_width << " and " << shape.v_width;
  }
}

// As a graph has it that is launched for contexts of several lengths.
TEST(DecodeAttention, MaxPositionsMayBeMore) {
  const AttentionCase attention({1, 2, 32, 40, {300, 5}, {}});
  EXPECT_EQ(attention.Run(Launch, 2000), attention.Run(Launch));
}

TEST(DecodeAttention, ARowIsTheSameAlone) {
  const AttentionCase all({1, 2, 32, 32, {70, 600, 1}, {0, 200, 0}});
  const std::vector<float> out = all.Run(Launch);
  AttentionCase alone = all;
  alone.shape.counts = {600};
  alone.shape.first = {200};
  alone.q = RowOf(all.q, 1, size_t{2} * 32);
  alone.table = RowOf(all.table, 1, all.table_stride);
  EXPECT_EQ(alone.Run(Launch), RowOf(out, 1, size_t{2} * 32));
}

TEST(DecodeAttention, NoOrderOfThreadsChangesABit) {
  const AttentionCase attention({1, 3, 32, 32, {300}, {}});
  ExpectSameBits(20, [&] { return attention.Run(Launch); });
}

// What a GPU has to come to as well.
TEST(DecodeAttention, ItsBitsAreAConstant) {
  const AttentionCase attention({2, 3, 80, 96, {300, 65}, {}, 4.0f});
  EXPECT_EQ(HashOf(attention.Run(Launch)), 8212139576750823780u);
}

TEST(DecodeAttention, NanShowsInItsHead) {
  const AttentionShape shape{2, 2, 32, 32, {300}, {}};
  const size_t width = 32;
  AttentionCase query(shape);
  query.q[width + 3] = kNan;
  AttentionCase key(shape);
  key.pages[key.At(0, 1, 270, key.k_offset, width) + 5] = 0x7fff;
  AttentionCase value(shape);
  value.pages[value.At(0, 0, 10, value.v_offset, width) + 7] = 0x7fff;
  AttentionCase infinite(shape);
  for (size_t i = 0; i < width; ++i) infinite.q[3 * width + i] = 3e38f;
  const struct {
    const AttentionCase& attention;
    std::vector<bool> heads;
  } cases[] = {{query, {false, true, false, false}},
               {key, {false, false, true, true}},
               {value, {true, true, false, false}},
               {infinite, {false, false, false, true}}};
  for (const auto& one : cases) {
    const std::vector<float> out = one.attention.Run(Launch);
    ASSERT_EQ(out.size(), 4 * width);
    for (size_t head = 0; head < 4; ++head) {
      EXPECT_EQ(HasNan(RowOf(out, head, width)), one.heads[head]) << head;
    }
  }
}

#ifdef TC_CUDA_ON_HOST

// Two pieces of three, two rounds of chunks of a key, of q and of the sums over
// the block's threads, two blocks of merging.
bool IsRightOfMutant(LaunchFn<DecodeAttentionArgs> launch) {
  static const AttentionCase attention(
      {2, 3, 80, 136, {600, 130}, {300, 70}, 5.0f});
  static const std::vector<double> right = attention.Right();
  const std::vector<float> out = attention.Run(launch);
  return out.size() == right.size() && Nmse(out, right) < 1e-11;
}

TEST(DecodeAttention, MutantsAreNoticed) {
  ExpectAllNoticed<DecodeAttentionArgs>(MutantsOfDecodeAttention(), 4, 1, 1,
                                        IsRightOfMutant);
}

TEST(DecodeAttentionLongDraws, MutantsAreNoticedUnderEverySeed) {
  ExpectAllNoticed<DecodeAttentionArgs>(MutantsOfDecodeAttention(), 4, 2, 3,
                                        IsRightOfMutant);
}

// Keys and values once for up to eight heads that share them.
TEST(DecodeAttention, ReadsTheBytesOfTheCostLaw) {
  for (const size_t group : {1, 4, 8, 12}) {
    const AttentionCase attention({2, group, 64, 128, {300}, {}});
    CountSectors([&] { attention.Run(Launch); });
    const auto traffic =
        cuda_on_host::GetTraffic("Attend<kHeads>", attention.pages_address);
    EXPECT_EQ(traffic.sectors * 32,
              size_t{300} * 2 * (64 + 128) * 2 * ((group + 7) / 8));
    EXPECT_EQ(traffic.bytes, traffic.sectors * 32);
  }
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
