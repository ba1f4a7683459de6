#include "engine/ffn/neuron_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"

namespace thermocline::engine {
namespace {

using ::testing::ElementsAre;

// The tree as a text, from pieces that arrive in this order.
std::string SumOf(const std::vector<size_t>& order) {
  PieceSums sums;
  sums.Start(order.size());
  std::vector<std::string> texts;
  for (size_t i = 0; i < order.size(); ++i) texts.push_back(std::to_string(i));
  for (const size_t piece : order) {
    sums.Arrive(piece, [&](size_t to, size_t from) {
      texts[to] = "(" + texts[to] + "+" + texts[from] + ")";
    });
  }
  return texts.empty() ? "" : texts[0];
}

std::vector<size_t> Ascending(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

TEST(PieceSums, TheTreeIsThatOfTheNumbers) {
  EXPECT_EQ(SumOf({0}), "0");
  EXPECT_EQ(SumOf({0, 1}), "(0+1)");
  EXPECT_EQ(SumOf({0, 1, 2}), "((0+1)+2)");
  EXPECT_EQ(SumOf({0, 1, 2, 3, 4, 5}), "(((0+1)+(2+3))+(4+5))");
}

TEST(PieceSums, TheOrderOfArrivalChangesNothing) {
  Random random(5);
  for (size_t count = 1; count <= PieceSums::kMaxPieces; ++count) {
    std::vector<size_t> order = Ascending(count);
    const std::string expected = SumOf(order);
    for (int round = 0; round < 20; ++round) {
      for (size_t i = count; i > 1; --i) {
        std::swap(order[i - 1], order[random.Below(i)]);
      }
      EXPECT_EQ(SumOf(order), expected);
    }
    std::ranges::sort(order, std::greater());
    EXPECT_EQ(SumOf(order), expected);
  }
}

TEST(PieceSums, ThreadsThatArriveTogether) {
  constexpr size_t kThreads = 4;
  std::vector<float> first;
  for (int round = 0; round < 200; ++round) {
    PieceSums sums;
    sums.Start(PieceSums::kMaxPieces);
    std::vector<float> values;
    for (size_t i = 0; i < PieceSums::kMaxPieces; ++i) {
      values.push_back(1.0f / static_cast<float>(i + 3));
    }
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (size_t p = thread; p < values.size(); p += kThreads) {
          sums.Arrive(
              p, [&](size_t to, size_t from) { values[to] += values[from]; });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (first.empty()) first = values;
    EXPECT_EQ(values, first);
  }
}

TEST(CutListsTest, PiecesAreTheListOnce) {
  const std::vector<uint32_t> ids = {5, 9, 2, 7, 1, 0, 8};
  const std::vector<NeuronList> lists = {{ids.data(), 7}, {ids.data() + 1, 2}};
  const std::vector<size_t> num_pieces = {3, 1};
  const CutLists cut = {lists, num_pieces, 3};
  EXPECT_THAT(cut.PieceOf(0, 0), ElementsAre(5, 9));
  EXPECT_THAT(cut.PieceOf(0, 1), ElementsAre(2, 7));
  EXPECT_THAT(cut.PieceOf(0, 2), ElementsAre(1, 0, 8));
  EXPECT_THAT(cut.PieceOf(1, 0), ElementsAre(9, 2));
}

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
