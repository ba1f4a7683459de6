// What the int8 products prefetch while they compute (int8_driver.h), one
// step of kStepBytes of each row at a time.
//
// Begin<kRows>() is called before kRows rows take a step, `offset` bytes behind
// where their parts begin, and Row<kRows>() before row r does; or, of streams,
// Share<kRows, kShares>() for each of so many shares of what that prefetches.
//
// Everything is always inlined: files compiled for different instruction sets
// use it, and the linker would keep one copy for all.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_PREFETCH_H_
#define THERMOCLINE_KERNELS_CPU_INT8_PREFETCH_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ahead.h"

namespace thermocline::kernels {

// Prefetches one of kShares shares of the lines of kNumBytes from an
// address on.
template <int kLocality, size_t kNumBytes, size_t kShares>
[[gnu::always_inline]] inline void PrefetchShare(uintptr_t begin,
                                                 size_t share) {
  constexpr size_t kLines = LinesOf(kNumBytes);
  const size_t end = kLines * (share + 1) / kShares;
  for (size_t i = kLines * share / kShares; i < end; ++i) {
    PrefetchLine<kLocality>(begin + i * kLineBytes);
  }
}

// The streams of one token: memory delivers more to a few of them than to one,
// and a stream that goes on forever can be prefetched ahead of its use. They
// are stream_bytes long; left_bytes of them begin with these parts. A single
// row is none. kNotAtAll: the hardware reads ahead as well.
//
// How far ahead: into the second level of the cache, then into the first. From
// memory (Intel, two threads, VNNI, pages of 4 KiB; first step at 2 KiB; all of
// a row at once) this reads 0.90 (Q4_0, Q4_K) to 0.95 (Q8_0) of what a loop
// does that only reads; without the second step 0.02 less, with it at 512 bytes
// 0.01 to 0.02 less; in rows next to each other, whole tiles ahead, 0.80 (Q4_K)
// to 0.91 (Q8_0). Zen 4 wants the first step further ahead: with one thread
// 0.99 of such a loop for Q4_0, 0.86 with 2 KiB; 4 KiB is as good for Q4_0,
// worse for Q8_0.
template <size_t kStepBytes, bool kNotAtAll>
struct PrefetchStreams {
  static constexpr size_t kFarBytes = kStreamAheadBytes;
  static constexpr size_t kNearBytes = 1024;

  size_t stream_bytes;
  size_t left_bytes;
  size_t far = 0;

  template <size_t kRows>
  [[gnu::always_inline]] void Begin(size_t offset) {
    // Past the streams' ends the caller's next rows begin, whose first stream
    // is where the last of these ends.
    far = kFarBytes +
          (offset + kFarBytes < left_bytes ? 0 : (kRows - 1) * stream_bytes);
  }
  template <size_t kRows>
  [[gnu::always_inline]] void Row(const std::byte* row, size_t offset,
                                  size_t /*r*/) const {
    Share<kRows, 1>(row, offset, 0);
  }
  template <size_t kRows, size_t kShares>
  [[gnu::always_inline]] void Share(const std::byte* row, size_t offset,
                                    size_t share) const {
    if constexpr (kRows == 1 || kNotAtAll) return;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(row) + offset;
    PrefetchShare<2, kStepBytes, kShares>(begin + far, share);
    PrefetchShare<3, kStepBytes, kShares>(begin + kNearBytes, share);
  }
};

// One stream that many tokens share.
template <size_t kStepBytes>
struct PrefetchTokens {
  static constexpr size_t kFarBytes = 8192;

  template <size_t kRows>
  [[gnu::always_inline]] void Begin(size_t) const {}
  template <size_t kRows>
  [[gnu::always_inline]] void Row(const std::byte* row, size_t offset,
                                  size_t /*r*/) const {
    PrefetchBytes<2>(reinterpret_cast<uintptr_t>(row) + offset + kFarBytes,
                     kStepBytes);
  }
};

// Listed rows, which have been prefetched: the caller's lines, into the level
// that its list says; of several rows, the bytes that are next, into the first,
// where they may not be: in the same rows' parts, and behind their end in those
// that follow.
template <size_t kStepBytes>
struct PrefetchList {
  static constexpr size_t kNearBytes = 512;

  AheadCursor lines;
  size_t part_bytes = 0;
  uintptr_t following[kStreams] = {};  // less part_bytes
  PrefetchedLines now;
  bool is_near_end = false;

  template <size_t kRows>
  [[gnu::always_inline]] void Begin(size_t offset) {
    now = lines.Take<LinesOf(kRows * kStepBytes)>();
    is_near_end = offset + kNearBytes >= part_bytes;
  }
  template <size_t kRows>
  [[gnu::always_inline]] void Row(const std::byte* row, size_t offset,
                                  size_t r) const {
    if (now) PrefetchPart<LinesOf(kRows * kStepBytes), kRows>(now, r);
    if (kRows == 1 || lines.into_first_level()) return;
    const uintptr_t near =
        is_near_end ? following[r] : reinterpret_cast<uintptr_t>(row);
    PrefetchBytes<3>(near + offset + kNearBytes, kStepBytes);
  }
};

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_INT8_PREFETCH_H_
