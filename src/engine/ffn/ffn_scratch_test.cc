#include "engine/ffn/ffn_scratch.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/ffn/neuron_pieces.h"
#include "kernels/kernels.h"
#include "os/memory.h"

namespace thermocline::engine {
namespace {

model::Config NarrowFfn() {
  model::Config config;
  config.width = 90;
  config.layers = {model::LayerSpec{.ffn = {.width = 130}}};
  return config;
}

uint64_t FfnBytesOf(const model::Config& config, const FfnShape& shape) {
  compute::Carver carver(nullptr);
  CarveFfn(config, shape, carver);
  return carver.used();
}

// The scratch, in memory of its size.
struct OwnedScratch {
  OwnedScratch(const model::Config& config, const FfnShape& shape)
      : buffer(os::AlignedBuffer::Allocate(FfnBytesOf(config, shape)).value()) {
    compute::Carver carver(buffer.data());
    scratch = CarveFfn(config, shape, carver).front();
  }
  os::AlignedBuffer buffer;
  FfnScratch scratch;
};

using ScratchPiece = std::pair<const void*, size_t>;  // and its bytes

// Aligned, one behind the other, inside.
void ExpectInOrder(const OwnedScratch& owned,
                   const std::vector<ScratchPiece>& pieces) {
  const std::byte* end_of_last = owned.buffer.data();
  for (const auto& [data, num_bytes] : pieces) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    EXPECT_GE(static_cast<const std::byte*>(data), end_of_last);
    end_of_last = static_cast<const std::byte*>(data) + num_bytes;
  }
  EXPECT_LE(end_of_last, owned.buffer.data() + owned.buffer.size());
}

ScratchPiece ScratchPieceOf(const compute::Rows& rows, size_t num_rows) {
  return {rows.data, num_rows * rows.stride * sizeof(float)};
}

TEST(FfnScratch, NoGateNoRoom) {
  const FfnShape shape = {.num_rows = 2};
  model::Config config = NarrowFfn();
  const uint64_t gated = FfnBytesOf(config, shape);
  config.layers[0].ffn.gated = false;
  EXPECT_EQ(gated - FfnBytesOf(config, shape),
            2u * 144 * sizeof(float));  // 130, to a line
}

TEST(FfnScratch, ExpertsGetRoomForEveryRowInOneOfThem) {
  model::Config config = NarrowFfn();
  config.layers[0].ffn.num_experts = 40;
  config.layers[0].ffn.num_experts_used = 20;
  const OwnedScratch owned(config, {.num_rows = 3, .is_recorded = true});
  const ExpertScratch& e = owned.scratch.experts;
  ExpectInOrder(owned, {ScratchPieceOf(owned.scratch.gate, 3),
                        ScratchPieceOf(owned.scratch.up, 3),
                        ScratchPieceOf(e.shares, 3),
                        ScratchPieceOf(e.weights, 3),
                        {e.chosen, size_t{3} * 20 * sizeof(uint32_t)},
                        {e.group_begin, 41 * sizeof(size_t)},
                        {e.grouped, size_t{3} * 20 * sizeof(size_t)},
                        ScratchPieceOf(e.in, 3),
                        ScratchPieceOf(e.out, 3),
                        // 130 neurons take 3 words.
                        {e.sets.words, size_t{3} * 2 * 3 * sizeof(uint64_t)},
                        ScratchPieceOf(e.gates, 3)});
  EXPECT_EQ(e.shares.width, 40u);
  EXPECT_EQ(e.weights.width, 20u);
  EXPECT_EQ(e.in.width, 90u);
  EXPECT_EQ(e.gates.width, 20u * 130);
  EXPECT_TRUE(e.sets.is_recorded);
}

TEST(FfnScratch, SparseOnesGetRoomForListsAndSums) {
  model::Config config = NarrowFfn();
  config.layers[0].ffn.gated = false;
  const FfnShape shape = {.num_rows = 3, .num_threads = 2, .is_sparse = true};
  const OwnedScratch owned(config, shape);
  const SparseScratch& sparse = owned.scratch.sparse;
  EXPECT_EQ(owned.scratch.gate.width, 130u);  // predictors use it
  EXPECT_EQ(owned.scratch.selector.hidden.data, owned.scratch.gate.data);
  EXPECT_EQ(sparse.group, 3u);
  EXPECT_EQ(sparse.fired_for_any().words, sparse.union_words + 3);
  const predictor::SelectorScratch& selector = owned.scratch.selector;
  ExpectInOrder(
      owned, {{sparse.all_ids, 130 * sizeof(uint32_t)},
              ScratchPieceOf(owned.scratch.gate, 3),
              ScratchPieceOf(owned.scratch.up, 3),
              {sparse.ids, size_t{3} * 130 * sizeof(uint32_t)},
              {sparse.fired, size_t{3} * 130 * sizeof(uint32_t)},
              ScratchPieceOf(sparse.sums, PieceSums::kMaxPieces * 3),
              {sparse.union_words, size_t{2} * 3 * sizeof(uint64_t)},
              {selector.signs, size_t{3} * 2 * sizeof(uint64_t)},
              {selector.differences,
               2 * predictor::SelectorScratch::kSignRows * sizeof(uint32_t)}});
}

TEST(FfnScratch, DownMatricesThatLieTransposedGetRoomToBeTurned) {
  model::Config config = NarrowFfn();
  const FfnShape shape = {.num_rows = 2, .isa = kernels::BestIsa()};
  EXPECT_EQ(OwnedScratch(config, shape).scratch.transposed_bytes, 0u);
  config.layers[0].ffn.down_is_transposed = true;
  const bool has_batches =
      static_cast<bool>(kernels::KernelsFor(shape.isa).batch);
  EXPECT_EQ(OwnedScratch(config, shape).scratch.transposed_bytes > 0,
            has_batches);
}

}  // namespace
}  // namespace thermocline::engine
