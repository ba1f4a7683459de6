#include "probe/rows_apart.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/ahead.h"
#include "probe/line.h"

namespace thermocline::probe {
namespace {

constexpr size_t kRowsInTurn = 8;     // a group
constexpr size_t kWordsAhead = 2560;  // 20 KiB

// Where the rows of a pass lie.
class Rows {
 public:
  Rows(std::span<const uint64_t> words, size_t row_words, size_t pass)
      : words_(words.data()), row_words_(row_words), pass_(pass) {}

  // The i-th one: of the i-th kRowsPerRead rows some, another in each pass.
  [[gnu::always_inline]] const uint64_t* operator[](size_t i) const {
    constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
    const size_t turn = (i * kMix >> 56) + pass_;
    return words_ + (i * kRowsPerRead + turn % kRowsPerRead) * row_words_;
  }

 private:
  const uint64_t* words_;
  size_t row_words_;
  size_t pass_;
};

size_t NumGroups(size_t num_words, size_t row_words) {
  return num_words / kRowsPerRead / kRowsInTurn / row_words;
}

// Inlined into code for several ISAs.
template <RowPrefetch kPrefetching>
[[gnu::always_inline]] inline uint64_t SumGroups(const Rows& rows,
                                                 size_t num_groups,
                                                 size_t row_words) {
  constexpr int kLocality = kPrefetching == RowPrefetch::kFirstLevel ? 3 : 2;
  const size_t groups_ahead =
      std::max<size_t>(kWordsAhead / (row_words * kRowsInTurn), 1);
  Line sums[kRowsInTurn] = {};
  for (size_t group = 0; group < num_groups; ++group) {
    const uint64_t* now[kRowsInTurn];
    const uint64_t* ahead[kRowsInTurn];
    const size_t later = std::min(group + groups_ahead, num_groups - 1);
    for (size_t r = 0; r < kRowsInTurn; ++r) {
      now[r] = rows[group * kRowsInTurn + r];
      ahead[r] = rows[later * kRowsInTurn + r];
    }
    for (size_t i = 0; i < row_words; i += kLineWords) {
      for (size_t r = 0; r < kRowsInTurn; ++r) {
        if constexpr (kPrefetching != RowPrefetch::kNotAtAll) {
          kernels::PrefetchLine<kLocality>(
              reinterpret_cast<uintptr_t>(ahead[r] + i));
        }
        Line line;
        __builtin_memcpy(&line, now[r] + i, sizeof(line));
        sums[r] += line;
      }
    }
  }
  uint64_t sum = 0;
  for (const Line& line : sums) {
    for (size_t i = 0; i < kLineWords; ++i) sum += line[i];
  }
  return sum;
}

[[gnu::always_inline]] inline uint64_t Sum(const Rows& rows, size_t num_groups,
                                           size_t row_words,
                                           RowPrefetch prefetching) {
  switch (prefetching) {
    case RowPrefetch::kFirstLevel:
      return SumGroups<RowPrefetch::kFirstLevel>(rows, num_groups, row_words);
    case RowPrefetch::kSecondLevel:
      return SumGroups<RowPrefetch::kSecondLevel>(rows, num_groups, row_words);
    case RowPrefetch::kNotAtAll:
      return SumGroups<RowPrefetch::kNotAtAll>(rows, num_groups, row_words);
  }
  return 0;
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] uint64_t SumAvx512(const Rows& rows,
                                              size_t num_groups,
                                              size_t row_words,
                                              RowPrefetch prefetching) {
  return Sum(rows, num_groups, row_words, prefetching);
}
#endif

}  // namespace

uint64_t SumRowsApart(std::span<const uint64_t> words, size_t row_words,
                      size_t pass, RowPrefetch prefetching) {
  TC_CHECK(row_words > 0 && row_words % kLineWords == 0);
  const Rows rows(words, row_words, pass);
  const size_t num_groups = NumGroups(words.size(), row_words);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return SumAvx512(rows, num_groups, row_words, prefetching);
  }
#endif
  return Sum(rows, num_groups, row_words, prefetching);
}

size_t WordsOfRows(size_t num_words, size_t row_words) {
  return NumGroups(num_words, row_words) * row_words * kRowsPerRead *
         kRowsInTurn;
}

}  // namespace thermocline::probe
