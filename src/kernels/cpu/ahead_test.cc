#include "kernels/cpu/ahead.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace thermocline::kernels {
namespace {

TEST(AheadCursorTest, GivesEveryLineOnceInOrder) {
  std::vector<uintptr_t> lines(20);
  std::iota(lines.begin(), lines.end(), 100);
  for (size_t length = 0; length <= lines.size(); ++length) {
    LinesAhead list = {lines.data(), lines.data() + length};
    AheadCursor cursor(&list);
    std::vector<uintptr_t> given;
    while (const AskedLines part = cursor.Take<3>()) {
      given.insert(given.end(), part.lines, part.lines + 3);
    }
    // What fills up the last part is asked for already.
    while (given.size() > length) {
      EXPECT_EQ(given.back(), lines[length - 1]);
      given.pop_back();
    }
    EXPECT_EQ(given, std::vector(lines.begin(), lines.begin() + length));
    EXPECT_EQ(list.next, lines.data());
    cursor.Finish();
    EXPECT_EQ(list.next, list.end);
  }
}

TEST(AheadCursorTest, MovesTheListByWhatItGave) {
  const std::vector<uintptr_t> lines(20);
  LinesAhead list = {lines.data(), lines.data() + lines.size()};
  AheadCursor cursor(&list);
  cursor.Take<5>();
  cursor.Take<7>();
  cursor.Finish();
  EXPECT_EQ(list.next, lines.data() + 12);
}

// Also of the last part, which is a copy.
TEST(AheadCursorTest, KeepsTheLevel) {
  const std::vector<uintptr_t> lines(4);
  for (const bool into_first_level : {false, true}) {
    LinesAhead list = {lines.data(), lines.data() + lines.size(),
                       into_first_level};
    AheadCursor cursor(&list);
    EXPECT_EQ(cursor.Take<3>().into_first_level, into_first_level);
    EXPECT_EQ(cursor.Take<3>().into_first_level, into_first_level);
    EXPECT_EQ(cursor.into_first_level(), into_first_level);  // at its end too
  }
}

TEST(AheadCursorTest, WithoutAListThereIsNothing) {
  AheadCursor cursor(nullptr);
  EXPECT_FALSE(cursor.Take<3>());
  cursor.Finish();
  LinesAhead empty;
  AheadCursor of_empty(&empty);
  EXPECT_FALSE(of_empty.into_first_level());
  EXPECT_FALSE(of_empty.Take<3>());
  of_empty.Finish();
  EXPECT_EQ(empty.next, nullptr);
}

TEST(LinesOfTest, RoundsUp) {
  EXPECT_EQ(LinesOf(0), 0u);
  EXPECT_EQ(LinesOf(1), 1u);
  EXPECT_EQ(LinesOf(64), 1u);
  EXPECT_EQ(LinesOf(576), 9u);
  EXPECT_EQ(LinesOf(577), 10u);
}

TEST(StreamsAheadTest, FollowsEachStreamFromItsBeginning) {
  StreamsAhead ahead({1000, 512}, {5000, 256}, 9000, 128);
  EXPECT_EQ(ahead.Take(4), 1128u);
  EXPECT_EQ(ahead.Take(4), 1384u);  // of these, two are behind the end
  EXPECT_EQ(ahead.Take(2), 5000u);
  EXPECT_EQ(ahead.Take(2), 5128u);
  EXPECT_EQ(ahead.Take(100), 9000u);
  EXPECT_EQ(ahead.Take(1), 9000u + 100 * kLineBytes);
}

TEST(StreamsAheadTest, OfAShortStreamTheNextOneIsAskedFor) {
  StreamsAhead ahead({1000, 64}, {5000, 64}, 9000, 16384);
  EXPECT_EQ(ahead.Take(3), 5000u);
  EXPECT_EQ(ahead.Take(3), 9000u);
  EXPECT_EQ(ahead.Take(3), 9000u + 3 * kLineBytes);
}

}  // namespace
}  // namespace thermocline::kernels
