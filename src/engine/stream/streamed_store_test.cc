#include "engine/stream/streamed_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "os/thread_pool.h"
#include "residency/policy.h"
#include "storage/block_reader.h"

namespace thermocline::engine {
namespace {

constexpr size_t kStoreLayers = 3;
constexpr uint32_t kStoreNeurons = 70;
constexpr size_t kStoreStride = 128;
constexpr uint64_t kStoreOffset = 4096;  // of the first layer's records

struct StoreRigOptions {
  const char* policy = "lru";
  uint32_t num_homes = 20;  // of each layer
  size_t slot_bytes = kStoreStride;
  storage::FakeOptions reads;
  StorageMode mode = StorageMode::kCluster;
  ReadPlan plan;
  double open_share = 1.0;  // of runs: below 1 gates are tested
};

// In parts of 32 bytes of which the gate fills one, gates first.
ReadPlan GatesFirst(size_t gap_bytes) {
  return {.part_bytes = kStoreStride / 4,
          .first_cost = -10.0,  // always
          .gap_bytes = gap_bytes,
          .most_early = 9};
}

// Lets the third of the neurons through whose records begin so.
bool IsOpen(size_t token, const std::byte* record) {
  return (static_cast<size_t>(record[0]) + token) % 3 == 0;
}

// Stores of layers of a file of noise.
class StoreRig {
 public:
  explicit StoreRig(const StoreRigOptions& options)
      : open_share_(options.open_share),
        file_(kStoreOffset + kStoreLayers * kStoreNeurons * kStoreStride),
        random_(options.reads.seed),
        pool_(
            os::ThreadPool::Create({.num_threads = 3, .pin = false}).value()) {
    for (std::byte& byte : file_) {
      byte = static_cast<std::byte>(random_.Below(256));
    }
    const ArenaPlan plan = {
        .slot_bytes = options.slot_bytes,
        .pass_slots = 2 * kStoreNeurons,
        .resident = std::vector<uint32_t>(kStoreLayers, options.num_homes)};
    const std::vector<residency::LayerExtent> extents(
        kStoreLayers,
        {.num_units = kStoreNeurons, .capacity = options.num_homes});
    shared_ = std::make_unique<StreamShared>(
        SlotArena::Allocate(plan).value(),
        storage::MakeFakeReader({file_}, options.reads),
        residency::MakePolicy(options.policy, extents).value(), kStoreNeurons,
        options.mode, options.plan);
    for (size_t i = 0; i < kStoreLayers; ++i) {
      stores_.push_back(StreamedStore::Make(
          {.layer_idx = i,
           .num_neurons = kStoreNeurons,
           .layout = {.gate = DType::kF32,
                      .up = DType::kF32,
                      .down = DType::kF32,
                      .width = 8,
                      .stride = kStoreStride},
           .span = {.offset = kStoreOffset + i * kStoreNeurons * kStoreStride,
                    .num_bytes = kStoreNeurons * kStoreStride},
           .path = "noise"},
          shared_.get()));
    }
  }

  StreamedStore& store(size_t layer) { return *stores_[layer]; }
  const StreamShared& shared() const { return *shared_; }
  Random& random() { return random_; }
  os::ThreadPool& pool() { return *pool_; }

  const std::byte* InFile(size_t layer, size_t neuron) const {
    return file_.data() + kStoreOffset +
           (layer * kStoreNeurons + neuron) * kStoreStride;
  }
  const std::byte* InSlot(size_t layer, uint32_t neuron) const {
    const uint32_t place = stores_[layer]->places()[neuron];
    return place == kAbsent ? nullptr : shared_->arena.slot(place);
  }
  // At least its first bytes.
  bool IsRight(size_t layer, uint32_t neuron,
               size_t num_bytes = kStoreStride) const {
    const std::byte* slot = InSlot(layer, neuron);
    return slot != nullptr &&
           std::memcmp(slot, InFile(layer, neuron), num_bytes) == 0;
  }
  // Of the neurons that have a place, those whose record is not there, or where
  // gates come alone not its gate.
  size_t NumWrong(size_t layer) const {
    const size_t num_bytes =
        open_share_ < 1.0 ? kStoreStride / 4 : kStoreStride;
    size_t count = 0;
    for (uint32_t i = 0; i < kStoreNeurons; ++i) {
      const bool is_there = InSlot(layer, i) != nullptr;
      count += is_there && !IsRight(layer, i, num_bytes) ? 1 : 0;
    }
    return count;
  }

  // A run of some tokens with lists of their own.
  Status Run(size_t layer) {
    std::array<std::vector<uint32_t>, 3> ids;
    std::array<NeuronList, 3> lists;
    std::array<size_t, 3> num_pieces;
    CutLists cut = {
        .lists = lists, .num_pieces = num_pieces, .open_share = open_share_};
    for (size_t t = 0; t < ids.size(); ++t) {
      for (uint32_t i = 0; i < kStoreNeurons; ++i) {
        if (random_.Below(3) == 0) ids[t].push_back(i);
      }
      lists[t] = {ids[t].data(), ids[t].size()};
      num_pieces[t] = std::min<size_t>(1 + random_.Below(5), ids[t].size());
      cut.max_pieces = std::max(cut.max_pieces, num_pieces[t]);
    }
    // Of the next layer's some that it will want, and others.
    if (layer + 1 < kStoreLayers && random_.Below(3) > 0) {
      std::array<uint64_t, neuron::WordsOf(kStoreNeurons)> words;
      for (uint64_t& word : words) word = random_.Next() & random_.Next();
      words.back() &= (uint64_t{1} << kStoreNeurons % 64) - 1;
      store(layer + 1).Prefetch({words.data(), kStoreNeurons});
    }
    return RunLists(layer, cut);
  }

  Status RunLists(size_t layer, const CutLists& cut) {
    StreamedStore& records = store(layer);
    records.Request(cut, 3);
    std::array<std::atomic<int>, PieceSums::kMaxPieces> num_taken = {};
    std::atomic<int> num_wrong = 0;
    pool_->ParallelFor(3, 1, [&](size_t share, size_t, int) {
      RigTest test(this, layer, &num_wrong);
      while (true) {
        const size_t piece = cut.open_share < 1.0
                                 ? records.NextReady(share, test)
                                 : records.NextReady(share);
        if (piece == cut.max_pieces) return;
        ++num_taken[piece];
        for (size_t t = 0; t < cut.lists.size(); ++t) {
          if (piece >= cut.num_pieces[t]) continue;
          for (const uint32_t neuron : cut.PieceOf(t, piece)) {
            const bool needs_all =
                cut.open_share == 1.0 || IsOpen(t, InFile(layer, neuron));
            const size_t num_bytes =
                needs_all ? kStoreStride : kStoreStride / 4;
            if (!IsRight(layer, neuron, num_bytes)) ++num_wrong;
          }
        }
      }
    });
    const Status status = records.Release();
    EXPECT_EQ(num_wrong, 0);
    for (size_t piece = 0; piece < cut.max_pieces; ++piece) {
      EXPECT_LE(num_taken[piece], 1);
      if (status) EXPECT_EQ(num_taken[piece], 1);
    }
    return status;
  }

  Status Whole(size_t layer) {
    StreamedStore& records = store(layer);
    records.BeginWhole();
    // The next layer's come meanwhile.
    if (layer + 1 < kStoreLayers) store(layer + 1).BeginWhole();
    TC_RETURN_IF_ERROR(records.FinishWhole(*pool_));
    for (uint32_t i = 0; i < kStoreNeurons; ++i) {
      const std::byte* record =
          records.whole_base() + i * shared_->arena.plan().slot_bytes;
      EXPECT_EQ(std::memcmp(record, InFile(layer, i), kStoreStride), 0);
    }
    return {};
  }

 private:
  class RigTest final : public GateTest {
   public:
    RigTest(const StoreRig* rig, size_t layer, std::atomic<int>* num_wrong)
        : rig_(*rig), layer_(layer), num_wrong_(*num_wrong) {}
    size_t KeepOpen(size_t token, uint32_t* ids, size_t count) override {
      size_t num_kept = 0;
      for (size_t i = 0; i < count; ++i) {
        const uint32_t id = ids[i];
        if (!rig_.IsRight(layer_, id, kStoreStride / 4)) ++num_wrong_;
        if (IsOpen(token, rig_.InFile(layer_, id))) ids[num_kept++] = id;
      }
      return num_kept;
    }

   private:
    const StoreRig& rig_;
    size_t layer_;
    std::atomic<int>& num_wrong_;
  };

  double open_share_;
  std::vector<std::byte> file_;
  Random random_;
  std::unique_ptr<os::ThreadPool> pool_;
  std::unique_ptr<StreamShared> shared_;
  std::vector<std::unique_ptr<StreamedStore>> stores_;
};

// Passes of runs and of whole layers, some with reads that fail; returns how
// many failed.
size_t RunPasses(StoreRig& rig, int num_passes) {
  size_t num_failed = 0;
  for (int pass = 0; pass < num_passes; ++pass) {
    const bool is_whole = rig.random().Below(4) == 0;
    Status status;
    for (size_t layer = 0; layer < kStoreLayers && status; ++layer) {
      if (is_whole) status = rig.Whole(layer);
      if (status) status = rig.Run(layer);
    }
    if (!status) {
      ++num_failed;
      EXPECT_EQ(status.error().code, ErrorCode::kIo);
      EXPECT_EQ(status.error().message.find("noise: layer "), 0u);
    }
    for (size_t layer = 0; layer < kStoreLayers; ++layer) {
      rig.store(layer).EndPass();
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

}  // namespace
}  // namespace thermocline::engine
