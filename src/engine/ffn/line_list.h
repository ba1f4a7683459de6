// The cache lines of rows that lie apart, in the order in which memory gives
// them fastest.
#ifndef THERMOCLINE_ENGINE_FFN_LINE_LIST_H_
#define THERMOCLINE_ENGINE_FFN_LINE_LIST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/ffn/neuron_ffn.h"
#include "kernels/kernels.h"
#include "os/cache_line.h"

namespace thermocline::engine {

// Enough for a chunk of `exact` that lets six tenths of its neurons through, or
// for several tokens with fewer (neuron_worker.cc).
inline constexpr size_t kMaxLines = 16384;

// The lines that are read soon. What does not fit is not prefetched.
class LineList {
 public:
  // KernelTable::lists_into_first_level
  explicit LineList(bool into_first_level)
      : ahead_{.into_first_level = into_first_level} {}

  void Clear() {
    num_lines_ = 0;
    ahead_.next = ahead_.end = nullptr;
  }
  // The first lines of some rows, then their second ones, and so on: rows lie
  // in pages of their own, whose addresses are then looked up side by side.
  void Add(const RowPlaces& rows, const uint32_t* ids, size_t num_rows) {
    const size_t lines_per_row = LinesPerRow(rows);
    for (size_t first = 0; first < num_rows; first += kLanes) {
      const size_t count = std::min(kLanes, num_rows - first);
      if (count * lines_per_row > kMaxLines - num_lines_) return;
      Lines lines = {};
      for (size_t i = 0; i < count; ++i) {
        lines[i] = reinterpret_cast<uintptr_t>(rows.row(ids[first + i])) /
                   os::kCacheLine * os::kCacheLine;
      }
      // Whole vectors: what is too much is written over by the next.
      for (size_t i = 0; i < lines_per_row; ++i) {
        std::memcpy(lines_ + num_lines_, &lines, sizeof(lines));
        lines += os::kCacheLine;
        num_lines_ += count;
      }
    }
  }
  // For kernels to prefetch while they compute.
  kernels::LinesAhead* Start() {
    ahead_.next = lines_;
    ahead_.end = lines_ + num_lines_;
    return &ahead_;
  }
  // Prefetches the next lines, as many as there are of num_lines.
  void Prefetch(size_t num_lines) {
    const size_t count =
        std::min(num_lines, static_cast<size_t>(ahead_.end - ahead_.next));
    for (size_t i = 0; i < count; ++i, ++ahead_.next) {
      os::PrefetchForRead(reinterpret_cast<const void*>(*ahead_.next));
    }
  }
  // Prefetches what no kernel has prefetched.
  void Finish() { Prefetch(kMaxLines); }

  // Exactly, where all rows begin alike: a line more of each would be a
  // twentieth of what is read. Else as many as a row may touch.
  static size_t LinesPerRow(const RowPlaces& rows) {
    const size_t before =
        rows.stride % os::kCacheLine == 0
            ? reinterpret_cast<uintptr_t>(rows.data) % os::kCacheLine
            : os::kCacheLine - 1;
    return (before + rows.num_bytes + os::kCacheLine - 1) / os::kCacheLine;
  }

 private:
  static constexpr size_t kLanes = 8;
  using Lines = uintptr_t __attribute__((ext_vector_type(kLanes)));

  uintptr_t lines_[kMaxLines + kLanes];
  size_t num_lines_ = 0;
  kernels::LinesAhead ahead_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_LINE_LIST_H_
