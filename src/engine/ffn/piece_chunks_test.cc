#include "engine/ffn/piece_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

namespace thermocline::engine {
namespace {

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
