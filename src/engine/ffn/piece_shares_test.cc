#include "engine/ffn/piece_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace thermocline::engine {
namespace {

using ::testing::ElementsAre;

std::vector<size_t> TakeAll(PieceShares& shares, size_t share) {
  std::vector<size_t> pieces;
  for (;;) {
    const size_t piece = shares.Take(share);
    if (piece == shares.num_pieces()) return pieces;
    pieces.push_back(piece);
  }
}

TEST(PieceSharesTest, TakesTheOwnShareInOrderThenTheOthers) {
  PieceShares shares;
  shares.Start(7, 3);
  EXPECT_THAT(TakeAll(shares, 1), ElementsAre(2, 3, 4, 5, 6, 0, 1));
  EXPECT_THAT(TakeAll(shares, 0), ElementsAre());
  shares.Start(7, 3);
  EXPECT_THAT(TakeAll(shares, 0), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(PieceSharesTest, HasNoneOfNone) {
  PieceShares shares;
  shares.Start(0, 1);
  EXPECT_THAT(TakeAll(shares, 0), ElementsAre());
}

TEST(PieceSharesTest, EveryPieceIsTakenOnceByThreads) {
  PieceShares shares;
  for (int round = 0; round < 200; ++round) {
    constexpr size_t kThreads = 4;
    const size_t num_pieces = 1 + static_cast<size_t>(round) % 32;
    shares.Start(num_pieces, std::min(kThreads, num_pieces));
    std::vector<std::vector<size_t>> taken(std::min(kThreads, num_pieces));
    std::vector<std::thread> threads;
    for (size_t t = 0; t < taken.size(); ++t) {
      threads.emplace_back([&, t] { taken[t] = TakeAll(shares, t); });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<int> counts(num_pieces);
    for (const auto& pieces : taken) {
      for (size_t piece : pieces) ++counts[piece];
    }
    EXPECT_THAT(counts, ::testing::Each(1)) << num_pieces;
  }
}

}  // namespace
}  // namespace thermocline::engine
