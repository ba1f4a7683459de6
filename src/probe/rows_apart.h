// Reads rows that lie apart, as a sparse layer's listed neurons do.
#ifndef THERMOCLINE_PROBE_ROWS_APART_H_
#define THERMOCLINE_PROBE_ROWS_APART_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace thermocline::probe {

// Of so many rows that follow each other, one is read in a pass.
inline constexpr size_t kRowsPerRead = 6;

// Which way to read: lines asked for into the first level of the cache, into
// the second, or left to the hardware. Which is fastest depends on the CPU.
enum class RowPrefetch { kFirstLevel, kSecondLevel, kNotAtAll };

// Reads one of every kRowsPerRead rows of row_words words in pass 0 to
// kRowsPerRead - 1: at random, and every row in one of the passes. Eight rows
// in turn, line by line, each asked for some 20 KiB before it is read, as
// engine/ffn/neuron_worker.h does. Returns the sum of what it read, modulo
// 2^64. Words that are left behind the last eight times kRowsPerRead rows are
// no rows: WordsOfRows() says how many are. Requires row_words % 8 == 0 and >
// 0.
uint64_t SumRowsApart(std::span<const uint64_t> words, size_t row_words,
                      size_t pass, RowPrefetch prefetching);
size_t WordsOfRows(size_t num_words, size_t row_words);

}  // namespace thermocline::probe

#endif  // THERMOCLINE_PROBE_ROWS_APART_H_
