#include "engine/ffn/record_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "compute/test_compute.h"
#include "engine/testing/test_record_store.h"

namespace thermocline::engine {
namespace {

using compute::testing::OwnedTensor;
using compute::testing::RandomFloats;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr uint32_t kNumNeurons = 20;

class Matrices {
 public:
  Matrices() {
    matrices.gate = gate_.view();
    matrices.up = up_.view();
    matrices.down_t = down_t_.view();
  }
  model::FfnMatrices matrices;

 private:
  OwnedTensor gate_{DType::kF32, RandomFloats(kNumNeurons * 4, 1), 4};
  OwnedTensor up_{DType::kF32, RandomFloats(kNumNeurons * 4, 2), 4};
  OwnedTensor down_t_{DType::kF16, RandomFloats(kNumNeurons * 4, 3), 4};
};

// Two tokens: neurons 0, 1, .. in three pieces, and the last two in one.
class Cut {
 public:
  Cut() : ids_(kNumNeurons) {
    std::iota(ids_.begin(), ids_.end(), 0u);
    lists_ = {{ids_.data(), 12}, {ids_.data() + kNumNeurons - 2, 2}};
  }
  CutLists lists() const { return {lists_, num_pieces_, 3}; }

 private:
  std::vector<uint32_t> ids_;
  std::vector<NeuronList> lists_;
  std::vector<size_t> num_pieces_ = {3, 1};
};

std::vector<size_t> TakeAll(RecordStore& store, const CutLists& cut,
                            size_t share) {
  std::vector<size_t> pieces;
  for (;;) {
    const size_t piece = store.NextReady(share);
    if (piece == cut.max_pieces) return pieces;
    pieces.push_back(piece);
  }
}

TEST(MappedStoreTest, EverythingIsWhereItLiesAndReady) {
  const Matrices made;
  const auto store = MakeMappedStore(made.matrices);
  EXPECT_EQ(store->views().gate.data, made.matrices.gate.data);
  EXPECT_EQ(store->views().up.data, made.matrices.up.data);
  EXPECT_EQ(store->views().down_t.data, made.matrices.down_t.data);
  EXPECT_EQ(store->places(), nullptr);
  const Cut cut;
  for (int run = 0; run < 2; ++run) {
    store->Request(cut.lists(), 2);
    EXPECT_THAT(TakeAll(*store, cut.lists(), 1), ElementsAre(1, 2, 0));
    EXPECT_TRUE(store->Release());
    store->EndPass();
  }
}

// The store of the tests keeps the contract too.
TEST(SlotStoreTest, HandsOutPiecesOnceAllOfThemIsThere) {
  const Matrices made;
  const auto store = testing::SlotStore::Make(made.matrices, {.seed = 3});
  const Cut cut;
  for (int run = 0; run < 5; ++run) {
    store->Request(cut.lists(), 2);
    EXPECT_THAT(TakeAll(*store, cut.lists(), 0), UnorderedElementsAre(0, 1, 2));
    for (uint32_t i = 0; i < kNumNeurons; ++i) {
      const uint32_t place = store->places()[i];
      if (i >= 12 && i < kNumNeurons - 2) {
        EXPECT_EQ(place, kAbsent);
        continue;
      }
      ASSERT_NE(place, kAbsent);
      EXPECT_EQ(std::memcmp(store->views().up.row(place),
                            made.matrices.up.row(i), 16),
                0);
      EXPECT_EQ(std::memcmp(store->views().down_t.row(place),
                            made.matrices.down_t.row(i), 8),
                0);
    }
    EXPECT_TRUE(store->Release());
    store->EndPass();
  }
}

TEST(SlotStoreTest, AFailedReadEndsTheRunAndTheNextTriesAgain) {
  const Matrices made;
  testing::ReadFaults faults;
  faults.num_reads_before = 7;
  const auto store =
      testing::SlotStore::Make(made.matrices, {.faults = &faults});
  const Cut cut;
  store->Request(cut.lists(), 1);
  EXPECT_LT(TakeAll(*store, cut.lists(), 0).size(), 3u);
  const Status status = store->Release();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  store->EndPass();
  store->Request(cut.lists(), 1);
  EXPECT_EQ(TakeAll(*store, cut.lists(), 0).size(), 3u);
  EXPECT_TRUE(store->Release());
}

TEST(RecordStoresTest, AreThoseOfLayersAndExperts) {
  const Matrices first, second, third;
  model::Weights weights;
  weights.layers.resize(2);
  static_cast<model::FfnMatrices&>(weights.layers[0].ffn) = first.matrices;
  weights.layers[1].ffn.experts = {second.matrices, third.matrices};
  const RecordStores mapped(weights, {});
  EXPECT_EQ(mapped.of(0, 0)->views().up.data, first.matrices.up.data);
  EXPECT_EQ(mapped.of(1, 1)->views().up.data, third.matrices.up.data);
  mapped.EndPass();

  std::vector<std::pair<size_t, size_t>> asked;
  const RecordStores made(weights, [&](size_t layer_idx, size_t expert_idx,
                                       const model::FfnMatrices& matrices) {
    asked.emplace_back(layer_idx, expert_idx);
    return testing::SlotStore::Make(matrices, {});
  });
  EXPECT_THAT(asked,
              ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(1, 1)));
  // A pass lets records go.
  RecordStore& store = *made.of(1, 0);
  const Cut cut;
  store.Request(cut.lists(), 1);
  TakeAll(store, cut.lists(), 0);
  EXPECT_TRUE(store.Release());
  const auto num_absent = [&] {
    return std::count(store.places(), store.places() + kNumNeurons, kAbsent);
  };
  EXPECT_EQ(num_absent(), 6);
  made.EndPass();
  EXPECT_GT(num_absent(), 6);
}

}  // namespace
}  // namespace thermocline::engine
