// For tests: stores of three layers of records, read from a file of noise.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_STORE_RIG_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_STORE_RIG_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/stream/streamed_store.h"
#include "engine/testing/test_restless_policy.h"
#include "os/thread_pool.h"
#include "residency/policy.h"
#include "storage/block_reader.h"

namespace thermocline::engine::testing {

inline constexpr size_t kStoreLayers = 3;
inline constexpr uint32_t kStoreNeurons = 70;
inline constexpr size_t kStoreStride = 128;
inline constexpr uint64_t kStoreOffset = 4096;  // of the first layer's records

struct StoreRigOptions {
  const char* policy = "lru";
  uint32_t num_homes = 20;  // of each layer
  size_t slot_bytes = kStoreStride;
  storage::FakeOptions reads;
  StorageMode mode = StorageMode::kCluster;
  ReadPlan plan;
  double open_share = 1.0;  // of runs: below 1 gates are tested
  // Instead of `policy` one that moves whom it likes, drawn from this.
  uint64_t restless_seed = 0;
  LiveOptions live;
};

// In parts of 32 bytes of which the gate fills one, gates first.
inline ReadPlan GatesFirst(size_t gap_bytes) {
  return {.part_bytes = kStoreStride / 4,
          .first_cost = -10.0,  // always
          .gap_bytes = gap_bytes,
          .most_early = 9};
}

// Lets the third of the neurons through whose records begin so.
inline bool IsOpen(size_t token, const std::byte* record) {
  return (static_cast<size_t>(record[0]) + token) % 3 == 0;
}

inline std::unique_ptr<residency::Policy> MakeRigPolicy(
    const StoreRigOptions& options,
    const std::vector<residency::LayerExtent>& extents) {
  if (options.restless_seed > 0) {
    return std::make_unique<RestlessPolicy>(extents, options.restless_seed);
  }
  return residency::MakePolicy(options.policy, extents).value();
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
        MakeRigPolicy(options, extents), extents, kStoreNeurons, options.mode,
        options.plan, options.live);
    shadow_ = residency::MakePolicy(options.policy, extents).value();
    for (size_t i = 0; i < kStoreLayers; ++i) shadow_->Initial(i);
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
  StreamShared& shared() { return *shared_; }
  // With what is still being moved.
  void EndPass() {
    for (const auto& records : stores_) records->EndPass();
    StreamedStore::CommitMoves(*shared_);
    for (const auto& layer : shared_->layers) {
      shared_->queue.WaitUntil([&] { return layer->num_moving == 0; });
    }
  }
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
  size_t NumResidents(size_t layer) const {
    return shared_->live.residents(layer).Count();
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

  void SetRests(bool rests) {
    rests_ = rests;
    shared_->live.set_rests(rests);
  }

  // Rows of a prompt, of which a policy beside the store's hears as if they had
  // been generated one by one, where the store learns and records are here.
  void LearnRows(size_t layer, size_t num_rows, bool are_here) {
    std::vector<std::array<uint64_t, 2>> rows(num_rows);
    for (auto& words : rows) {
      for (uint64_t& word : words) word = random_.Next() & random_.Next();
      words.back() &= (uint64_t{1} << kStoreNeurons % 64) - 1;
    }
    const auto set_of = [&](size_t row) {
      return neuron::NeuronSet{rows[row].data(), kStoreNeurons};
    };
    store(layer).LearnRows(num_rows,
                           [&](size_t row, const neuron::NeuronSet& used) {
                             EXPECT_EQ(used.Count(), 0u);
                             used.AddAllOf(set_of(row));
                           });
    if (rests_) return;
    const size_t most = StreamedStore::kLearnedRows;
    for (size_t row = num_rows - std::min(num_rows, most); row < num_rows;
         ++row) {
      shadow_->Observe(layer, set_of(row));
      set_of(row).ForEachIn(0, are_here ? kStoreNeurons : 0, [&](size_t i) {
        const auto neuron = static_cast<uint32_t>(i);
        if (shadow_->IsResident(layer, neuron)) return;
        shadow_->Admit(layer, neuron, set_of(row));
      });
    }
  }

  // Whether those have places of their own that the shadow lets stay.
  bool AreAsLearned(size_t layer) {
    bool are_as_learned = true;
    const uint32_t first = shared_->arena.plan().first_of(layer);
    for (uint32_t i = 0; i < kStoreNeurons; ++i) {
      const uint32_t place = store(layer).places()[i];
      const bool is_at_home = place != kAbsent && place >= first;
      are_as_learned = are_as_learned && IsRight(layer, i) &&
                       shared_->live.Has(layer, i) == is_at_home &&
                       shadow_->IsResident(layer, i) == is_at_home;
    }
    return are_as_learned;
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
  std::unique_ptr<residency::Policy> shadow_;
  bool rests_ = false;
};

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_STORE_RIG_H_
