#include "kernels/cpu/ahead.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
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
    while (const PrefetchedLines part = cursor.Take<3>()) {
      given.insert(given.end(), part.lines, part.lines + 3);
    }
    // What fills up the last part is prefetched already.
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

class StreamsAheadTest : public ::testing::Test {
 protected:
  static constexpr size_t kPageBytes = 4 * kLineBytes;
  // Pages that lie at multiples of 1000.
  static StreamsAhead::Stream Pages(const std::vector<size_t>& thousands,
                                    std::vector<const std::byte*>* pages,
                                    size_t num_bytes) {
    for (size_t page : thousands) {
      pages->push_back(reinterpret_cast<const std::byte*>(page * 1000));
    }
    return {pages->data(), kPageBytes, num_bytes};
  }
  std::vector<const std::byte*> first_, second_;
};

TEST_F(StreamsAheadTest, FollowsEachStreamFromItsBeginning) {
  StreamsAhead ahead(Pages({3, 1, 2}, &first_, 2 * kPageBytes + 128),
                     Pages({5}, &second_, 128), 9000, 128);
  EXPECT_EQ(ahead.Take(1), 3128u);
  EXPECT_EQ(ahead.Take(4), 3192u);  // of these, three are behind the end
  EXPECT_EQ(ahead.Take(4), 1000u);
  EXPECT_EQ(ahead.Take(1), 2000u);
  EXPECT_EQ(ahead.Take(1), 2064u);
  EXPECT_EQ(ahead.Take(2), 5000u);
  EXPECT_EQ(ahead.Take(3), 9000u);
  EXPECT_EQ(ahead.Take(1), 9192u);
  EXPECT_EQ(ahead.Take(1), 9000u);
}

TEST_F(StreamsAheadTest, BeginsInALaterPage) {
  const StreamsAhead::Stream first = Pages({3, 1, 2}, &first_, 3 * kPageBytes);
  const StreamsAhead::Stream second = Pages({5}, &second_, kPageBytes);
  for (const auto& [bytes_ahead, expected] :
       std::vector<std::pair<size_t, uintptr_t>>{{0, 3000},
                                                 {kPageBytes, 1000},
                                                 {2 * kPageBytes + 64, 2064},
                                                 {3 * kPageBytes, 5000}}) {
    StreamsAhead ahead(first, second, 9000, bytes_ahead);
    EXPECT_EQ(ahead.Take(1), expected) << bytes_ahead;
  }
}

TEST_F(StreamsAheadTest, OfAShortStreamTheNextOneIsPrefetched) {
  StreamsAhead ahead(Pages({1}, &first_, 64), Pages({5}, &second_, 64), 9000,
                     16384);
  EXPECT_EQ(ahead.Take(3), 5000u);
  EXPECT_EQ(ahead.Take(3), 9000u);
  EXPECT_EQ(ahead.Take(3), 9000u + 3 * kLineBytes);
}

}  // namespace
}  // namespace thermocline::kernels
