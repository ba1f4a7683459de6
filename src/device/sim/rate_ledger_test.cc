#include "device/sim/rate_ledger.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/random.h"

namespace thermocline::device {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(RateLedger, WhatIsTakenIsNotFree) {
  RateLedger ledger(8.0);
  EXPECT_EQ(ledger.FreeAt(0.0), 8.0);
  EXPECT_EQ(ledger.NextChange(0.0), kNever);
  ledger.Take(1.0, 3.0, 2.0);
  ledger.Take(2.0, 4.0, 6.0);
  const std::vector<std::pair<double, double>> want = {
      {0.5, 8.0}, {1.0, 6.0}, {2.0, 0.0}, {3.0, 2.0}, {4.0, 8.0}};
  for (const auto& [time, free] : want) {
    EXPECT_EQ(ledger.FreeAt(time), free) << time;
  }
  EXPECT_EQ(ledger.NextChange(0.0), 1.0);
  EXPECT_EQ(ledger.NextChange(1.0), 2.0);
  EXPECT_EQ(ledger.NextChange(3.5), 4.0);
  EXPECT_EQ(ledger.NextChange(4.0), kNever);
  ledger.ForgetBefore(2.5);
  EXPECT_EQ(ledger.FreeAt(2.5), 0.0);
  EXPECT_EQ(ledger.FreeAt(3.0), 2.0);
  ledger.ForgetBefore(9.0);
  EXPECT_EQ(ledger.FreeAt(9.0), 8.0);
}

TEST(RateLedger, ALaneServesOneAtATimeAndInGaps) {
  RateLedger lane(4.0);
  EXPECT_EQ(Place(0.0, 8.0, 4.0, &lane, nullptr).end, 2.0);
  EXPECT_EQ(Place(5.0, 4.0, 4.0, &lane, nullptr).end, 6.0);
  // Ready at 0: from 2 to 5, then what is left from 6 on.
  const Placed cut = Place(0.0, 16.0, 4.0, &lane, nullptr);
  EXPECT_EQ(cut.end, 7.0);
  EXPECT_EQ(cut.busy, 4.0);
  EXPECT_EQ(Place(0.0, 4.0, 4.0, &lane, nullptr).end, 8.0);
  // Nothing to do is done at once.
  EXPECT_EQ(Place(0.5, 0.0, 4.0, &lane, nullptr).end, 0.5);
}

// Around what has the lane already; the pieces add up.
TEST(RateLedger, TellsThePiecesOfWork) {
  RateLedger lane(4.0);
  Place(2.0, 8.0, 4.0, &lane, nullptr);
  std::vector<PlacedPiece> pieces;
  EXPECT_EQ(Place(1.0, 6.0, 4.0, &lane, nullptr, &pieces).end, 4.5);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].begin, 1.0);
  EXPECT_EQ(pieces[0].end, 2.0);
  EXPECT_EQ(pieces[0].amount, 4.0);
  EXPECT_EQ(pieces[1].begin, 4.0);
  EXPECT_EQ(pieces[1].end, 4.5);
  EXPECT_EQ(pieces[1].amount, 2.0);
}

TEST(RateLedger, ABusGivesWhatIsLeft) {
  RateLedger lane(4.0), other(8.0), bus(8.0);
  EXPECT_EQ(Place(0.0, 16.0, 4.0, &lane, &bus).end, 4.0);
  // 4 of 8 until 4, then all 8.
  EXPECT_EQ(Place(0.0, 32.0, 8.0, &other, &bus).end, 6.0);
  // Nothing is left before 6.
  EXPECT_EQ(Place(1.0, 8.0, 8.0, nullptr, &bus).end, 7.0);
}

// However many and however odd: no more is given than there is, and each gets
// its amount.
TEST(RateLedger, IsNeverOverdrawn) {
  Random random(5);
  RateLedger lane(3.7), bus(5.3);
  double amount = 0.0, end = 0.0;
  for (int i = 0; i < 500; ++i) {
    const double size = random.Uniform() * 10.0;
    const bool takes_lane = random.Below(2) == 0;
    const Placed placed =
        Place(random.Uniform() * 100.0, size, takes_lane ? 3.7 : 4.9,
              takes_lane ? &lane : nullptr, &bus);
    EXPECT_LE(size / 4.9, placed.busy * (1 + 1e-9));
    amount += size;
    end = std::max(end, placed.end);
  }
  double given = 0.0;
  for (double time = 0.0; time < end;) {
    const double free = bus.FreeAt(time);
    EXPECT_GE(free, 0.0);
    EXPECT_LE(free, 5.3);
    const double next = std::min(end, bus.NextChange(time));
    given += (5.3 - free) * (next - time);
    time = next;
  }
  EXPECT_NEAR(given, amount, amount * 1e-6);
}

}  // namespace
}  // namespace thermocline::device
