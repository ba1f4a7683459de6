#include "engine/ffn/neuron_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

namespace thermocline::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

// Rows of 200 bytes, 256 apart, from a multiple of 64 on.
struct TestRows {
  static constexpr size_t kBytes = 200, kStride = 256, kCount = 400;
  alignas(64) std::byte bytes[kStride * kCount];
  RowPlaces places() const { return Places(0, kBytes, kStride, kCount); }
  RowPlaces Places(size_t first, size_t num_bytes, size_t stride,
                   size_t count) const {
    TensorView view;
    view.dtype = DType::kI8;
    view.shape = {.ne = {num_bytes, count, 1, 1}, .rank = 2};
    view.data = bytes + first;
    view.stride_bytes = stride;
    return RowPlaces(view);
  }
};

std::vector<size_t> LinesFrom(const kernels::LinesAhead& ahead,
                              const TestRows& rows) {
  std::vector<size_t> lines;
  for (const uintptr_t* p = ahead.next; p != ahead.end; ++p) {
    lines.push_back((*p - reinterpret_cast<uintptr_t>(rows.bytes)) /
                    os::kCacheLine);
  }
  return lines;
}

TEST(LineListTest, TakesRowsInTurns) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  const uint32_t ids[] = {5, 2};
  list->Add(rows->places(), ids, 2);
  EXPECT_THAT(LinesFrom(*list->Start(), *rows),
              ElementsAre(20, 8, 21, 9, 22, 10, 23, 11));
}

TEST(LineListTest, FindsRowsAtTheirPlaces) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  RowPlaces places = rows->places();
  const uint32_t of_neurons[] = {kAbsent, 2, 5};
  places.places = of_neurons;
  const uint32_t ids[] = {2, 1};
  list->Add(places, ids, 2);
  EXPECT_THAT(LinesFrom(*list->Start(), *rows),
              ElementsAre(20, 8, 21, 9, 22, 10, 23, 11));
}

TEST(LineListTest, HasNoLineThatRowsDoNotTouch) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  const uint32_t ids[] = {0, 1};
  const auto lines_of = [&](const RowPlaces& places) {
    list->Clear();
    list->Add(places, ids, 2);
    return LinesFrom(*list->Start(), *rows);
  };
  EXPECT_THAT(lines_of(rows->Places(0, 128, 256, 2)), ElementsAre(0, 4, 1, 5));
  // From byte 63 of a line on, and up to byte 0 of one.
  EXPECT_THAT(lines_of(rows->Places(63, 66, 128, 2)),
              ElementsAre(0, 2, 1, 3, 2, 4));
  EXPECT_THAT(lines_of(rows->Places(32, 96, 192, 2)), ElementsAre(0, 3, 1, 4));
  // Where each row begins elsewhere, as many as one may touch.
  EXPECT_THAT(lines_of(rows->Places(0, 66, 66, 2)),
              ElementsAre(0, 1, 1, 2, 2, 3));
}

TEST(LineListTest, HasEveryLineOfManyRowsAndOfASecondAdd) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  std::vector<uint32_t> ids(21);
  std::set<size_t> expected;
  for (uint32_t i = 0; i < ids.size(); ++i) {
    ids[i] = 3 * i;
    for (size_t line = 0; line < 4; ++line) expected.insert(12 * i + line);
  }
  list->Add(rows->places(), ids.data(), 13);
  list->Add(rows->places(), ids.data() + 13, 8);
  EXPECT_THAT(LinesFrom(*list->Start(), *rows), IsSupersetOf(expected));
}

TEST(LineListTest, LeavesOutWhatDoesNotFit) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  std::vector<uint32_t> ids(TestRows::kCount, 1);
  for (int i = 0; i < 20; ++i) {
    list->Add(rows->places(), ids.data(), ids.size());
  }
  kernels::LinesAhead* ahead = list->Start();
  EXPECT_LE(ahead->end - ahead->next, static_cast<ptrdiff_t>(kMaxLines));
  EXPECT_GT(ahead->end - ahead->next, static_cast<ptrdiff_t>(kMaxLines) - 64);
  list->Finish();
  EXPECT_EQ(ahead->next, ahead->end);
}

TEST(LineListTest, PrefetchingSomeLeavesTheOthers) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  const uint32_t id = 0;
  list->Add(rows->places(), &id, 1);
  const kernels::LinesAhead* ahead = list->Start();
  const ptrdiff_t count = ahead->end - ahead->next;
  list->Prefetch(1);
  EXPECT_EQ(ahead->end - ahead->next, count - 1);
  list->Prefetch(1000);
  EXPECT_EQ(ahead->next, ahead->end);
}

TEST(LineListTest, SaysIntoWhichLevel) {
  for (const bool into_first_level : {false, true}) {
    const auto list = std::make_unique<LineList>(into_first_level);
    list->Clear();
    EXPECT_EQ(list->Start()->into_first_level, into_first_level);
  }
}

TEST(LineListTest, IsEmptyAgainOnceCleared) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  const uint32_t id = 0;
  list->Add(rows->places(), &id, 1);
  list->Start();
  list->Clear();
  EXPECT_THAT(LinesFrom(*list->Start(), *rows), ElementsAre());
}

class PieceChunksTest : public ::testing::Test {
 protected:
  PieceChunksTest() : ids_(100) { std::iota(ids_.begin(), ids_.end(), 0); }

  // Of tokens with lists of so many neurons, each its own.
  void AddToken(size_t first_id, size_t count, size_t num_pieces) {
    lists_.push_back({ids_.data() + first_id, count});
    num_pieces_.push_back(num_pieces);
  }

  std::vector<Chunk> All(size_t num_shares, size_t share, size_t chunk_rows) {
    const CutLists cut = {
        lists_, num_pieces_,
        *std::max_element(num_pieces_.begin(), num_pieces_.end())};
    const auto records = MakeMappedStore({});
    records->Request(cut, num_shares);
    PieceChunks chunks(cut, records.get(), share, chunk_rows);
    std::vector<Chunk> all;
    for (;;) {
      const Chunk chunk = chunks.Next();
      if (chunk.num_rows == 0) return all;
      all.push_back(chunk);
    }
  }

  std::vector<uint32_t> ids_;
  std::vector<NeuronList> lists_;
  std::vector<size_t> num_pieces_;
};

// Who asks for gates is not whole when its chunks are made.
TEST_F(PieceChunksTest, TakesNothingBeforeItIsAsked) {
  AddToken(0, 10, 2);
  const CutLists cut = {lists_, num_pieces_, 2};
  const auto records = MakeMappedStore({});
  records->Request(cut, 1);
  PieceChunks late(cut, records.get(), 0, 8);
  PieceChunks first(cut, records.get(), 0, 8);
  EXPECT_EQ(first.Next().piece, 0u);
  EXPECT_EQ(late.Next().piece, 1u);
}

TEST_F(PieceChunksTest, CutsPiecesIntoChunksThatSayWhereTheyStand) {
  AddToken(0, 21, 2);  // pieces of 10 and 11
  const std::vector<Chunk> chunks = All(1, 0, 8);
  ASSERT_EQ(chunks.size(), 4u);
  const std::array<uint32_t, 4> firsts = {0, 8, 10, 18};
  const std::array<size_t, 4> counts = {8, 2, 8, 3};
  for (size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i].ids[0], firsts[i]) << i;
    EXPECT_EQ(chunks[i].num_rows, counts[i]) << i;
    EXPECT_EQ(chunks[i].piece, i / 2) << i;
    EXPECT_EQ(chunks[i].begins_piece, i % 2 == 0) << i;
    EXPECT_EQ(chunks[i].ends_tokens, i % 2 == 1) << i;
    EXPECT_EQ(chunks[i].ends_piece, i % 2 == 1) << i;
  }
}

TEST_F(PieceChunksTest, TokensWithTheSameListGoTogether) {
  AddToken(0, 8, 1);
  AddToken(0, 8, 1);
  AddToken(8, 8, 2);
  const std::vector<Chunk> chunks = All(1, 0, 100);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].num_tokens, 2u);
  EXPECT_TRUE(chunks[0].ends_tokens);
  EXPECT_FALSE(chunks[0].ends_piece);
  EXPECT_EQ(chunks[1].first_token, 2u);
  EXPECT_EQ(chunks[1].num_rows, 4u);
  EXPECT_TRUE(chunks[1].ends_piece);
  // The second piece is of the last token alone.
  EXPECT_EQ(chunks[2].first_token, 2u);
  EXPECT_EQ(chunks[2].piece, 1u);
  EXPECT_TRUE(chunks[2].ends_piece);
}

TEST_F(PieceChunksTest, AThreadTakesItsShareThenTheOthers) {
  AddToken(0, 40, 4);
  const std::vector<Chunk> chunks = All(2, 1, 100);
  ASSERT_EQ(chunks.size(), 4u);
  const std::array<size_t, 4> pieces = {2, 3, 0, 1};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(chunks[i].piece, pieces[i]) << i;
}

TEST_F(PieceChunksTest, ATokenWithoutNeuronsHasNoChunk) {
  AddToken(0, 0, 0);
  EXPECT_TRUE(All(1, 0, 8).empty());
  AddToken(0, 5, 1);
  EXPECT_EQ(All(1, 0, 8).size(), 1u);
}

}  // namespace
}  // namespace thermocline::engine
