#include "engine/kv/kv_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/kv_group.h"
#include "tensor/float16.h"

namespace thermocline::engine {
namespace {

using kernels::KvOrder;

constexpr size_t kLayers = 2;
constexpr size_t kHeads = 2;
constexpr size_t kKWidth = 32;
constexpr size_t kVWidth = 64;

std::unique_ptr<KvPool> MakePool(uint64_t num_pages, DType dtype = DType::kF32,
                                 KvOrder order = KvOrder::kRows) {
  model::Config config;
  config.num_layers = kLayers;
  config.layers.assign(kLayers,
                       model::LayerSpec{.attention = {.num_heads = kHeads,
                                                      .num_kv_heads = kHeads,
                                                      .key_width = kKWidth,
                                                      .value_width = kVWidth}});
  const auto layout = PlanKvLayout(config, dtype, dtype, order);
  EXPECT_TRUE(layout.has_value());
  auto pool = KvPool::Create(*layout, num_pages);
  EXPECT_TRUE(pool.has_value());
  return *std::move(pool);
}

std::vector<float> RandomRow(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> row(n);
  for (float& value : row) value = random.Uniform(-1.0f, 1.0f);
  return row;
}

uint64_t SeedOf(size_t layer, int64_t position, uint64_t tag) {
  return tag * 1000000 + layer * 10000 + static_cast<uint64_t>(position);
}

// Appends num_new positions of random rows.
void Append(KvSequence& sequence, int64_t num_new, uint64_t tag) {
  const kernels::KernelTable& kernels =
      kernels::KernelsFor(kernels::Isa::kScalar);
  ASSERT_TRUE(sequence.Reserve(num_new).has_value());
  for (size_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t i = 0; i < num_new; ++i) {
      const int64_t position = sequence.length() + i;
      const uint64_t seed = SeedOf(layer, position, tag);
      sequence.Put(kernels, layer, position,
                   RandomRow(kHeads * kKWidth, seed).data(),
                   RandomRow(kHeads * kVWidth, seed + 1).data());
    }
  }
  sequence.Advance(num_new);
}

// Positions [first, end) are those of Append with `tag`.
void ExpectRows(const KvSequence& sequence, int64_t first, int64_t end,
                uint64_t tag, float tolerance = 1e-3f) {
  const auto count = static_cast<size_t>(end - first);
  std::vector<uint16_t> k(count * kHeads * kKWidth);
  std::vector<uint16_t> v(count * kHeads * kVWidth);
  for (size_t layer = 0; layer < kLayers; ++layer) {
    sequence.Get(layer, first, end - first, k.data(), v.data());
    for (size_t i = 0; i < count; ++i) {
      const uint64_t seed = SeedOf(layer, first + static_cast<int64_t>(i), tag);
      const auto keys = RandomRow(kHeads * kKWidth, seed);
      const auto values = RandomRow(kHeads * kVWidth, seed + 1);
      for (size_t c = 0; c < keys.size(); ++c) {
        ASSERT_NEAR(F16ToF32(k[i * keys.size() + c]), keys[c], tolerance);
      }
      for (size_t c = 0; c < values.size(); ++c) {
        ASSERT_NEAR(F16ToF32(v[i * values.size() + c]), values[c], tolerance);
      }
    }
  }
}

TEST(KvSequence, PutAndGetForEveryTypeAndOrder) {
  for (const auto& [dtype, order] :
       {std::pair(DType::kF32, KvOrder::kRows),
        std::pair(DType::kF16, KvOrder::kRows),
        std::pair(DType::kQ8_0, KvOrder::kRows),
        std::pair(DType::kQ8_0, KvOrder::kGroups)}) {
    SCOPED_TRACE(std::string(NameOf(dtype)));
    const auto pool = MakePool(3, dtype, order);
    KvSequence sequence(pool.get(), 150);
    Append(sequence, 63, 1);
    Append(sequence, 2, 1);
    Append(sequence, 70, 1);
    ExpectRows(sequence, 0, 135, 1, dtype == DType::kQ8_0 ? 0.01f : 1e-3f);
    ExpectRows(sequence, 60, 70, 1, dtype == DType::kQ8_0 ? 0.01f : 1e-3f);
  }
}

TEST(KvSequence, GroupsAndRowsOfAPageDoNotOverlap) {
  const auto pool = MakePool(2);
  KvSequence sequence(pool.get(), 128);
  ASSERT_TRUE(sequence.Reserve(128).has_value());
  std::vector<const std::byte*> begins;
  for (size_t page = 0; page < 2; ++page) {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      for (size_t head = 0; head < kHeads; ++head) {
        begins.push_back(sequence.keys(layer, head, page));
      }
      for (size_t head = 0; head < kHeads; ++head) {
        begins.push_back(sequence.values(layer, head, page));
      }
    }
  }
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    const bool is_key = i / kHeads % 2 == 0;
    EXPECT_EQ(begins[i + 1] - begins[i],
              static_cast<ptrdiff_t>(64 * 4 * (is_key ? kKWidth : kVWidth)));
  }
}

TEST(KvSequence, TakesPagesAsItGrowsAndGivesThemBack) {
  const auto pool = MakePool(3);
  {
    KvSequence sequence(pool.get(), 1000);
    EXPECT_EQ(pool->num_free(), 3u);
    Append(sequence, 64, 1);
    EXPECT_EQ(pool->num_free(), 2u);
    Append(sequence, 1, 1);
    EXPECT_EQ(pool->num_free(), 1u);
    ASSERT_TRUE(sequence.Reserve(100).has_value());  // and never used
    EXPECT_EQ(pool->num_free(), 0u);
    sequence.Truncate(sequence.length());
    EXPECT_EQ(pool->num_free(), 1u);
    sequence.Truncate(64);
    EXPECT_EQ(pool->num_free(), 2u);
    KvSequence moved = std::move(sequence);
    EXPECT_EQ(moved.length(), 64);
    EXPECT_EQ(pool->num_free(), 2u);
  }
  EXPECT_EQ(pool->num_free(), 3u);
}

TEST(KvSequence, RefusesWhatThereIsNoRoomFor) {
  const auto pool = MakePool(2);
  KvSequence sequence(pool.get(), 100);
  Append(sequence, 3, 1);
  const Status too_long = sequence.Reserve(98);
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(too_long.error().message.find("97 of 100"), std::string::npos)
      << too_long.error().message;
  KvSequence other(pool.get(), 1000);
  const Status no_pages = other.Reserve(65);
  ASSERT_FALSE(no_pages.has_value());
  EXPECT_EQ(no_pages.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(no_pages.error().message.find("2 pages"), std::string::npos)
      << no_pages.error().message;
  EXPECT_EQ(pool->num_free(), 1u);  // nothing was kept
  EXPECT_TRUE(other.Reserve(64).has_value());
}

TEST(KvSequence, ForksShareUntilOneWrites) {
  const auto pool = MakePool(5);
  KvSequence trunk(pool.get(), 300);
  Append(trunk, 100, 1);
  KvSequence fork = trunk.Fork(90);
  EXPECT_EQ(fork.length(), 90);
  EXPECT_EQ(pool->num_free(), 3u);  // no page of its own
  Append(fork, 20, 2);              // copies the second page
  EXPECT_EQ(pool->num_free(), 2u);
  Append(trunk, 1, 1);  // the page is its own again
  EXPECT_EQ(pool->num_free(), 2u);
  ExpectRows(trunk, 0, 101, 1);
  ExpectRows(fork, 0, 90, 1);
  ExpectRows(fork, 90, 110, 2);
  // Whole pages are shared without a copy.
  KvSequence whole = trunk.Fork(64);
  Append(whole, 5, 3);
  EXPECT_EQ(pool->num_free(), 1u);
  ExpectRows(whole, 0, 64, 1);
  ExpectRows(whole, 64, 69, 3);
  ExpectRows(trunk, 0, 101, 1);
}

TEST(KvSequence, TruncatedTrunkDoesNotWriteIntoAFork) {
  const auto pool = MakePool(4);
  KvSequence trunk(pool.get(), 300);
  Append(trunk, 100, 1);
  const KvSequence fork = trunk.Fork(100);
  trunk.Truncate(10);
  Append(trunk, 80, 2);
  ExpectRows(fork, 0, 100, 1);
  ExpectRows(trunk, 0, 10, 1);
  ExpectRows(trunk, 10, 90, 2);
}

TEST(KvSequence, ACopyThatThereIsNoPageForChangesNothing) {
  const auto pool = MakePool(1);
  KvSequence trunk(pool.get(), 64);
  Append(trunk, 10, 1);
  KvSequence fork = trunk.Fork(10);
  EXPECT_FALSE(fork.Reserve(1).has_value());
  EXPECT_FALSE(trunk.Reserve(1).has_value());
  ExpectRows(fork, 0, 10, 1);
  {
    const KvSequence gone = std::move(fork);
  }
  EXPECT_TRUE(trunk.Reserve(1).has_value());
}

// How much of each page somebody has a copy of.
TEST(KvSequence, WhatIsWrittenAnewHasNoCopy) {
  const auto pool = MakePool(5);
  const int owner = 0;
  pool->StartMirror(&owner);
  KvSequence trunk(pool.get(), 300);
  Append(trunk, 100, 1);
  const auto mirrored = [&](const KvSequence& sequence) {
    std::vector<size_t> counts;
    for (size_t i = 0; i < sequence.num_pages(); ++i) {
      counts.push_back(pool->mirrored(sequence.page_of_pool(i)));
    }
    return counts;
  };
  using Counts = std::vector<size_t>;
  EXPECT_EQ(mirrored(trunk), Counts({0, 0}));
  pool->SetMirrored(trunk.page_of_pool(0), 64);
  pool->SetMirrored(trunk.page_of_pool(1), 36);
  KvSequence fork = trunk.Fork(90);
  ASSERT_TRUE(fork.Reserve(0));  // writes nothing
  EXPECT_EQ(mirrored(fork), Counts({64, 36}));
  ASSERT_TRUE(fork.Reserve(1));  // in a copy of the page
  EXPECT_EQ(mirrored(fork), Counts({64, 0}));
  EXPECT_EQ(mirrored(trunk), Counts({64, 36}));
  trunk.Truncate(80);
  EXPECT_EQ(mirrored(trunk), Counts({64, 36}));
  ASSERT_TRUE(trunk.Reserve(60));
  EXPECT_EQ(mirrored(trunk), Counts({64, 16, 0}));
  // A pass that failed is written again.
  pool->SetMirrored(trunk.page_of_pool(1), 64);
  pool->SetMirrored(trunk.page_of_pool(2), 12);
  ASSERT_TRUE(trunk.Reserve(60));
  EXPECT_EQ(mirrored(trunk), Counts({64, 16, 0}));
  pool->StartMirror(&fork);
  EXPECT_EQ(mirrored(trunk), Counts({0, 0, 0}));
}

// Rows of F16 of many positions lie as if each had been put as floats.
TEST(KvSequence, RowsOfManyPositionsArePutAsGetGivesThem) {
  const kernels::KernelTable& kernels =
      kernels::KernelsFor(kernels::Isa::kScalar);
  for (const auto& [dtype, order] : {std::pair{DType::kF16, KvOrder::kRows},
                                     {DType::kF32, KvOrder::kRows},
                                     {DType::kQ8_0, KvOrder::kRows},
                                     {DType::kQ8_0, KvOrder::kGroups}}) {
    const auto pool = MakePool(6, dtype, order);
    KvSequence from(pool.get(), 192);
    KvSequence to(pool.get(), 192);
    Append(from, 130, 1);
    ASSERT_TRUE(to.Reserve(130).has_value());
    for (size_t layer = 0; layer < kLayers; ++layer) {
      for (const auto& [first, count] : {std::pair{0, 60}, {60, 70}}) {
        std::vector<uint16_t> k(static_cast<size_t>(count) * kHeads * kKWidth);
        std::vector<uint16_t> v(static_cast<size_t>(count) * kHeads * kVWidth);
        from.Get(layer, first, count, k.data(), v.data());
        to.PutRows(kernels, layer, first, count, k.data(), v.data());
      }
    }
    to.Advance(130);
    ExpectRows(to, 0, 130, 1, dtype == DType::kQ8_0 ? 2e-2f : 1e-3f);
  }
}

// The same number only if what is there has only grown.
TEST(KvSequence, AHistoryEndsWherePositionsAreGivenUp) {
  const auto pool = MakePool(8);
  KvSequence sequence(pool.get(), 128);
  const uint64_t first = sequence.history();
  Append(sequence, 70, 1);
  ASSERT_TRUE(sequence.Reserve(5).has_value());
  sequence.Truncate(70);  // what was reserved alone
  EXPECT_EQ(sequence.history(), first);
  const KvSequence fork = sequence.Fork(70);
  EXPECT_NE(fork.history(), first);
  KvSequence moved = std::move(sequence);
  EXPECT_EQ(moved.history(), first);
  moved.Truncate(69);
  EXPECT_NE(moved.history(), first);
}

TEST(KvPool, PagesAreTakenAndDroppedByAnyThread) {
  const auto pool = MakePool(8);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 50; ++i) {
        KvSequence sequence(pool.get(), 128);
        if (!sequence.Reserve(65).has_value()) continue;
        sequence.Advance(65);
        const KvSequence fork = sequence.Fork(static_cast<int64_t>(t) + 1);
        EXPECT_EQ(fork.num_pages(), 1u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->num_free(), 8u);
}

}  // namespace
}  // namespace thermocline::engine
