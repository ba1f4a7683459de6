#include "engine/stream/streamed_store.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/testing/test_store_rig.h"
#include "residency/policy.h"

namespace thermocline::engine {
namespace {

using testing::GatesFirst;
using testing::IsOpen;
using testing::kStoreLayers;
using testing::kStoreNeurons;
using testing::kStoreOffset;
using testing::kStoreStride;
using testing::StoreRig;
using testing::StoreRigOptions;

// Passes of runs and of whole layers, some with reads that fail; returns how
// many failed.
size_t RunPasses(StoreRig& rig, int num_passes) {
  size_t num_failed = 0;
  for (int pass = 0; pass < num_passes; ++pass) {
    const bool is_whole = rig.random().Below(4) == 0;
    Status status;
    for (size_t layer = 0; layer < kStoreLayers && status; ++layer) {
      if (is_whole) status = rig.Whole(layer);
      if (is_whole && status && pass % 2 == 0) {
        rig.LearnRows(layer, rig.random().Below(90), true);
      }
      if (status) status = rig.Run(layer);
    }
    if (!status) {
      ++num_failed;
      EXPECT_EQ(status.error().code, ErrorCode::kIo);
      EXPECT_EQ(status.error().message.find("noise: layer "), 0u);
    }
    rig.EndPass();
    for (size_t layer = 0; layer < kStoreLayers; ++layer) {
      EXPECT_EQ(rig.NumWrong(layer), 0u) << layer;
    }
  }
  return num_failed;
}

TEST(StreamedStoreTest, RecordsAreWhereTheyAreSaidToBe) {
  for (const residency::PolicyInfo& policy : residency::Policies()) {
    for (const uint32_t num_homes : {1u, 20u, 69u, 70u}) {
      SCOPED_TRACE(std::string(policy.name) + " " + std::to_string(num_homes));
      StoreRig rig({.policy = policy.name.data(),
                    .num_homes = num_homes,
                    .reads = {.seed = num_homes, .short_share = 0.3}});
      EXPECT_EQ(RunPasses(rig, 20), 0u);
    }
  }
}

// Gates first or not, over gaps or not, each mode; with reads a layer early.
std::vector<StoreRigOptions> WaysToRead() {
  std::vector<StoreRigOptions> ways;
  for (const StorageMode mode :
       {StorageMode::kCluster, StorageMode::kMatrix, StorageMode::kWindow}) {
    for (const size_t gap_bytes : {size_t{0}, size_t{96}, size_t{1} << 20}) {
      for (const double open_share : {1.0, 0.5}) {
        ways.push_back({.mode = mode,
                        .plan = GatesFirst(gap_bytes),
                        .open_share = open_share});
      }
    }
  }
  return ways;
}

TEST(StreamedStoreTest, EveryWayOfReadingBringsWhatIsNeeded) {
  for (StoreRigOptions way : WaysToRead()) {
    for (const uint32_t num_homes : {1u, 20u, 70u}) {
      SCOPED_TRACE(std::string(NameOf(way.mode)) + " " +
                   std::to_string(way.plan.gap_bytes) + " " +
                   std::to_string(way.open_share) + " " +
                   std::to_string(num_homes));
      way.num_homes = num_homes;
      way.reads = {.seed = num_homes, .short_share = 0.3};
      StoreRig rig(way);
      EXPECT_EQ(RunPasses(rig, 20), 0u);
      const StreamTotals::OfPhase& counts = rig.shared().counts;
      EXPECT_LE(counts.num_early_used, counts.num_early);
      way.reads.fail_share = 0.05;
      StoreRig failing(way);
      const size_t num_failed = RunPasses(failing, 30);
      if (num_homes == kStoreNeurons) continue;  // few reads are made
      EXPECT_EQ(counts.num_early > 0, way.mode == StorageMode::kCluster);
      EXPECT_GT(num_failed, 0u);
    }
  }
}

// The gate alone of those that rest.
TEST(StreamedStoreTest, TheRestIsReadOfWhoIsOpen) {
  StoreRig rig({.plan = GatesFirst(0), .open_share = 0.5});
  std::vector<uint32_t> some;
  size_t num_open = 0;
  for (uint32_t i = 0; i < kStoreNeurons; i += 2) {
    some.push_back(i);
    num_open += IsOpen(0, rig.InFile(0, i)) ? 1 : 0;
  }
  const std::array<NeuronList, 1> lists = {{{some.data(), some.size()}}};
  const std::array<size_t, 1> num_pieces = {4};
  ASSERT_TRUE(rig.RunLists(0, {lists, num_pieces, 4, 0.5}));
  const StreamTotals::OfPhase& counts = rig.shared().counts;
  EXPECT_EQ(counts.num_missed, some.size());
  EXPECT_EQ(counts.num_reads, some.size() + num_open);
  EXPECT_EQ(counts.num_bytes,
            (some.size() + 3 * num_open) * (kStoreStride / 4));
}

// Whom the hint named nobody reads again.
TEST(StreamedStoreTest, WhatWasReadEarlyIsThere) {
  StoreRig rig({.reads = {.seed = 3}, .plan = {.gap_bytes = 0}});
  std::vector<uint32_t> some = {3, 20, 21, 50};
  uint64_t words[2] = {};
  const neuron::NeuronSet hint = {words, kStoreNeurons};
  for (const uint32_t i : {3, 20, 21, 60}) hint.Add(i);
  rig.store(1).Prefetch(hint);
  const std::array<NeuronList, 1> lists = {{{some.data(), some.size()}}};
  const std::array<size_t, 1> num_pieces = {2};
  StreamedStore& first = rig.store(0);
  first.Request({lists, num_pieces, 2}, 1);
  size_t share = 0;
  while (first.NextReady(share) < 2) {
  }
  ASSERT_TRUE(first.Release());
  EXPECT_EQ(rig.shared().counts.num_early, 4u);
  ASSERT_TRUE(rig.RunLists(1, {lists, num_pieces, 2}));
  EXPECT_EQ(rig.shared().counts.num_early_used, 3u);
  EXPECT_EQ(rig.shared().counts.num_missed, 8u);
  EXPECT_EQ(rig.shared().counts.num_bytes, 9 * kStoreStride);
  EXPECT_EQ(rig.shared().counts.num_reads, 3 + 3 + 1u);
}

TEST(StreamedStoreTest, FailedReadsLeaveNothingWrong) {
  // Where all stay, few reads are made.
  for (const auto& [num_homes, fail_share] :
       {std::pair{20u, 0.02}, std::pair{70u, 0.3}}) {
    StoreRig rig({.num_homes = num_homes,
                  .reads = {.seed = num_homes, .fail_share = fail_share}});
    const size_t num_failed = RunPasses(rig, 60);
    EXPECT_GT(num_failed, 0u);
    EXPECT_LT(num_failed, 60u);
  }
}

// Moves under way while runs, whole layers and other moves go on; some fail.
TEST(StreamedStoreTest, MovesLeaveNothingWrong) {
  uint64_t seed = 0;
  size_t num_failed_in_all = 0;
  for (StoreRigOptions way : WaysToRead()) {
    for (const bool deterministic : {false, true}) {
      for (const double fail_share : {0.0, 0.02}) {
        SCOPED_TRACE(std::string(NameOf(way.mode)) + " " +
                     std::to_string(way.plan.gap_bytes) + " " +
                     std::to_string(way.open_share) +
                     (deterministic ? " deterministic " : " ") +
                     std::to_string(fail_share));
        way.restless_seed = ++seed;
        way.num_homes = 60;
        way.live = {.deterministic = deterministic, .moves_per_token = 60};
        way.reads = {.seed = seed,
                     .fail_share = fail_share,
                     .short_share = 0.2,
                     .most_waits = 1 + 20 * (seed % 3)};
        StoreRig rig(way);
        const size_t num_failed = RunPasses(rig, 30);
        num_failed_in_all += num_failed;
        if (fail_share == 0.0) EXPECT_EQ(num_failed, 0u);
        EXPECT_GT(rig.shared().counts.num_moves, 30u);
        EXPECT_GT(rig.shared().counts.num_move_bytes, 30 * kStoreStride);
      }
    }
  }
  EXPECT_GT(num_failed_in_all, 20u);
}

// Who cannot be read in the background is nobody's resident, and is there for
// whoever wants it.
TEST(StreamedStoreTest, AMoveThatFailsIsForgotten) {
  for (const bool deterministic : {false, true}) {
    StoreRig rig(
        {.reads = {.seed = 2, .fail_share = 1.0},
         .restless_seed = 5,
         .live = {.deterministic = deterministic, .moves_per_token = 6}});
    const CutLists nothing = {.lists = {}, .num_pieces = {}, .max_pieces = 0};
    for (int pass = 0; pass < 4; ++pass) {
      for (size_t layer = 0; layer < kStoreLayers; ++layer) {
        ASSERT_TRUE(rig.RunLists(layer, nothing));
      }
      rig.EndPass();
    }
    EXPECT_GT(rig.shared().counts.num_moves, 4u);
    for (size_t layer = 0; layer < kStoreLayers; ++layer) {
      // But for those of the last pass, of which nobody heard yet.
      EXPECT_LE(rig.NumResidents(layer), deterministic ? 19u : 20u);
      EXPECT_EQ(rig.NumWrong(layer), 0u);
    }
  }
}

TEST(StreamedStoreTest, SlotsMayBeLargerThanRecords) {
  StoreRig rig({.slot_bytes = 192, .reads = {.seed = 9}});
  EXPECT_EQ(RunPasses(rig, 10), 0u);
}

// With room for all nothing is read twice; neighbours are read together.
TEST(StreamedStoreTest, ReadsNothingTwice) {
  StoreRig rig({.num_homes = kStoreNeurons, .reads = {.seed = 4}});
  std::vector<uint32_t> all(kStoreNeurons);
  std::iota(all.begin(), all.end(), 0u);
  const std::array<NeuronList, 1> lists = {{{all.data(), all.size()}}};
  const std::array<size_t, 1> num_pieces = {4};
  const CutLists cut = {lists, num_pieces, 4};
  ASSERT_TRUE(rig.RunLists(0, cut));
  EXPECT_EQ(rig.shared().counts.num_missed, kStoreNeurons);
  EXPECT_EQ(rig.shared().counts.num_bytes, kStoreNeurons * kStoreStride);
  EXPECT_EQ(rig.shared().counts.num_reads, 1u);
  ASSERT_TRUE(rig.RunLists(0, cut));
  ASSERT_TRUE(rig.RunLists(1, cut));
  ASSERT_TRUE(rig.RunLists(2, cut));
  ASSERT_TRUE(rig.RunLists(0, cut));
  EXPECT_EQ(rig.shared().counts.num_wanted, 5 * kStoreNeurons);
  EXPECT_EQ(rig.shared().counts.num_missed, 3 * kStoreNeurons);
}

std::vector<std::unique_ptr<StreamedStore>> MakeExperts(size_t num_experts,
                                                        StreamShared* shared) {
  std::vector<std::unique_ptr<StreamedStore>> stores;
  for (size_t e = 0; e < num_experts; ++e) {
    stores.push_back(StreamedStore::Make(
        {.num_neurons = kStoreNeurons,
         .num_experts = num_experts,
         .expert_idx = e,
         .layout = {.gate = DType::kF32,
                    .up = DType::kF32,
                    .down = DType::kF32,
                    .width = 8,
                    .stride = kStoreStride},
         .span = {.offset = kStoreOffset + e * kStoreNeurons * kStoreStride,
                  .num_bytes = kStoreNeurons * kStoreStride},
         .path = "noise"},
        shared));
  }
  return stores;
}

// Of experts that are together all reads are one run's, also those that were
// asked for before it: else nobody would know how fast the drive is.
TEST(StreamedStoreTest, ExpertsThatAreTogetherAreTimedAsOneRun) {
  constexpr size_t kBytes = 2 * kStoreNeurons * kStoreStride;
  const std::vector<std::byte> file(kStoreOffset + kBytes, std::byte{5});
  const std::vector<residency::LayerExtent> extents = {
      {.num_units = 2 * kStoreNeurons, .capacity = 20}};
  StreamShared shared(SlotArena::Allocate({.slot_bytes = kStoreStride,
                                           .pass_slots = 2 * kStoreNeurons,
                                           .resident = {20}})
                          .value(),
                      storage::MakeFakeReader({file}, {.seed = 2}),
                      residency::MakePolicy("lru", extents).value(), extents,
                      kStoreNeurons);
  const auto stores = MakeExperts(2, &shared);
  std::vector<uint32_t> all(kStoreNeurons);
  std::iota(all.begin(), all.end(), 0u);
  const std::array<NeuronList, 1> lists = {{{all.data(), all.size()}}};
  const std::array<size_t, 1> num_pieces = {4};
  StreamedStore::BeginTogether(shared, 0);
  stores[1]->Ask(nullptr, 1.0);  // the other's are read when it runs
  for (const auto& store : stores) {
    store->Request({lists, num_pieces, 4}, 1);
    size_t share = 0;
    while (store->NextReady(share) < 4) {
    }
    ASSERT_TRUE(store->Release());
  }
  StreamedStore::LearnTogether(shared, 0);
  EXPECT_EQ(shared.counts.num_bytes, kBytes);
  EXPECT_EQ(shared.times.read_bytes, kBytes);
  for (const auto& store : stores) store->EndPass();
}

}  // namespace
}  // namespace thermocline::engine
