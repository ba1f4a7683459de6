#include "probe/rows_apart.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace thermocline::probe {
namespace {

constexpr RowPrefetch kAllWays[] = {RowPrefetch::kFirstLevel,
                                    RowPrefetch::kSecondLevel,
                                    RowPrefetch::kNotAtAll};

TEST(SumRowsApartTest, EveryRowIsReadInOneOfThePasses) {
  for (const size_t row_words : {8, 24, 144, 512}) {
    const size_t group_words = row_words * kRowsPerRead * 8;
    for (const size_t num_words :
         {group_words - 1, group_words, 3 * group_words + 5}) {
      const size_t num_in_rows = WordsOfRows(num_words, row_words);
      EXPECT_EQ(num_in_rows, num_words / group_words * group_words);
      // What is no row would be seen in the sum.
      std::vector<uint64_t> words(num_words, uint64_t{1} << 40);
      for (size_t i = 0; i < num_in_rows; ++i) words[i] = i * i + 7;
      const uint64_t expected = std::accumulate(
          words.begin(), words.begin() + static_cast<ptrdiff_t>(num_in_rows),
          uint64_t{0});
      for (const RowPrefetch prefetching : kAllWays) {
        uint64_t sum = 0;
        for (size_t pass = 0; pass < kRowsPerRead; ++pass) {
          sum += SumRowsApart(words, row_words, pass, prefetching);
        }
        EXPECT_EQ(sum, expected) << row_words << " " << num_words;
      }
    }
  }
}

TEST(SumRowsApartTest, APassReadsOneOfSixRowsWhole) {
  constexpr size_t kRowWords = 16;
  constexpr size_t kRows = 10 * 8 * kRowsPerRead;
  std::vector<bool> taken(kRows, false);
  size_t num_next_to_each_other = 0;
  for (size_t row = 0; row < kRows; ++row) {
    // A row that is read adds each of its words once.
    std::vector<uint64_t> words(kRows * kRowWords, 0);
    for (size_t i = 0; i < kRowWords; ++i) words[row * kRowWords + i] = 1;
    const uint64_t sum =
        SumRowsApart(words, kRowWords, 2, RowPrefetch::kNotAtAll);
    EXPECT_TRUE(sum == 0 || sum == kRowWords) << row;
    taken[row] = sum > 0;
    if (row > 0 && taken[row] && taken[row - 1]) ++num_next_to_each_other;
  }
  for (size_t row = 0; row < kRows; row += kRowsPerRead) {
    size_t count = 0;
    for (size_t i = 0; i < kRowsPerRead; ++i) count += taken[row + i];
    EXPECT_EQ(count, 1u) << row;
  }
  // Not the same of each six: some are neighbours, but few.
  EXPECT_LT(num_next_to_each_other, kRows / kRowsPerRead / 4);
}

}  // namespace
}  // namespace thermocline::probe
