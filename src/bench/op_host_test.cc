#include "bench/op_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRoom = 1 << 20;

// At sizes that are multiples of nothing but the type's block.
TEST(OpHostTest, ComputesWhatTheLayerWants) {
  for (const auto& [dtype, width] : {std::pair{DType::kQ4_0, size_t{96}},
                                     {DType::kQ8_0, size_t{160}},
                                     {DType::kF16, size_t{71}}}) {
    OpLayer layer({.dtype = dtype, .width = width, .num_neurons = 77}, 5);
    const auto host =
        MakeHostSubject(layer, {.num_threads = 3, .most_bytes = kRoom});
    ASSERT_TRUE(host.has_value()) << host.error().message;
    std::vector<uint32_t> all(77);
    std::iota(all.begin(), all.end(), 0u);
    const auto expect_right = [&](const std::vector<uint32_t>& ids,
                                  size_t num_rows, bool is_dense) {
      for (size_t t = 0; t < std::min<size_t>(num_rows, 8); ++t) {
        const Status status =
            layer.Check("host", ids, t, is_dense, (*host)->out(t));
        EXPECT_TRUE(status.has_value()) << status.error().message;
      }
    };
    // More often than there are copies.
    for (int i = 0; i < 3; ++i) {
      ASSERT_GT((*host)->Dense().value_or(0.0), 0.0);
      expect_right(all, 1, true);
    }
    for (const size_t num_rows : {1, 3, 8, 17}) {
      for (const auto& ids :
           {std::vector<uint32_t>{76}, {0, 31, 32, 70}, all}) {
        ASSERT_GT((*host)->Sparse(ids, num_rows).value_or(0.0), 0.0);
        expect_right(ids, num_rows, false);
      }
    }
    EXPECT_EQ((*host)->neuron_bytes(), 3 * BytesOf(dtype, width));
    EXPECT_EQ((*host)->dense_bytes(), 96 * (*host)->neuron_bytes());
  }
}

// Little is in the cache, and then there is no bound.
TEST(OpHostTest, LittleIsInTheCache) {
  const OpLayer layer({.width = 64, .num_neurons = 40}, 5);
  const auto host =
      MakeHostSubject(layer, {.num_threads = 1, .most_bytes = kRoom});
  ASSERT_TRUE(host.has_value()) << host.error().message;
  const OpFacts& facts = (*host)->facts();
  EXPECT_TRUE(facts.in_cache);
  EXPECT_FALSE(facts.roof_gb_per_s.has_value());
  EXPECT_LE(facts.num_bytes, kRoom);
}

TEST(OpHostTest, RefusesWhatHasNoRoom) {
  const OpLayer layer({.width = 64, .num_neurons = 40}, 5);
  const auto host = MakeHostSubject(layer, {.most_bytes = 1000});
  ASSERT_FALSE(host.has_value());
  EXPECT_EQ(host.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(host.error().message, HasSubstr("more than the 1000 B"));
}

struct CopiesCase {
  uint64_t cache_bytes, most_bytes;
  size_t records, matrices;
  bool in_cache;
};

// Of a layer of 100 bytes.
TEST(OpCopiesTest, AreMoreThanTheCacheHolds) {
  for (const CopiesCase& c :
       {CopiesCase{0, 200, 1, 1, false}, CopiesCase{50, 200, 1, 1, false},
        CopiesCase{51, 300, 2, 1, false}, CopiesCase{51, 200, 1, 1, true},
        CopiesCase{300, 800, 6, 2, false}, CopiesCase{300, 799, 5, 1, true},
        CopiesCase{1 << 20, 1 << 30, 64, 13, true}}) {
    const OpCopies copies = CopiesFor(100, c.cache_bytes, c.most_bytes, 5);
    EXPECT_EQ(copies.records, c.records) << c.cache_bytes;
    EXPECT_EQ(copies.matrices, c.matrices) << c.cache_bytes;
    EXPECT_EQ(copies.in_cache, c.in_cache) << c.cache_bytes;
    EXPECT_LE(copies.total() * 100, c.most_bytes);
  }
}

}  // namespace
}  // namespace thermocline::bench
