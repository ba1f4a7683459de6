// How a kernel prefetches what it will read: lines of LinesAhead (kernels.h),
// or streams that follow each other.
//
// Everything is always inlined: files compiled for different instruction sets
// use it, and the linker would keep one copy for all.
#ifndef THERMOCLINE_KERNELS_CPU_AHEAD_H_
#define THERMOCLINE_KERNELS_CPU_AHEAD_H_

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace thermocline::kernels {

inline constexpr size_t kLineBytes = 64;

// Prefetches the cache line of an address, which may be past what a pointer
// may point to, into the first (kLocality 3) or second level (2) of the cache.
template <int kLocality>
[[gnu::always_inline]] inline void PrefetchLine(uintptr_t address) {
  __builtin_prefetch(reinterpret_cast<const void*>(address), 0, kLocality);
}

// Prefetches for `num_bytes` from an address on.
template <int kLocality>
[[gnu::always_inline]] inline void PrefetchBytes(uintptr_t begin,
                                                 size_t num_bytes) {
  for (size_t i = 0; i < num_bytes; i += kLineBytes) {
    PrefetchLine<kLocality>(begin + i);
  }
}

// How many lines stand for so many bytes.
[[gnu::always_inline]] constexpr size_t LinesOf(size_t num_bytes) {
  return (num_bytes + kLineBytes - 1) / kLineBytes;
}

// The lines of streams that a kernel reads one after another, each from its
// beginning to its end, prefetched some bytes ahead of what it reads; where the
// first is shorter than that, from the beginning of the second on. Addresses,
// as they may be past what a pointer may point to.
class StreamsAhead {
 public:
  // Pages with so many bytes in all of them; page_bytes is a multiple of a
  // line.
  struct Stream {
    const std::byte* const* pages;
    size_t page_bytes;
    size_t num_bytes;
  };

  StreamsAhead() = default;  // to be assigned to
  // After the second stream comes one page; behind it, that page again and
  // again.
  [[gnu::always_inline]] StreamsAhead(const Stream& first, const Stream& second,
                                      uintptr_t last_page, size_t bytes_ahead)
      : left_(first), second_(second), last_page_(last_page) {
    Follow();
    while (bytes_ahead >= end_ - next_) {
      bytes_ahead = left_.num_bytes == 0 ? 0 : bytes_ahead - (end_ - next_);
      Follow();
    }
    next_ += bytes_ahead;
  }

  // The first of so many lines that follow each other, which the caller asks
  // for; those behind the end of a page in vain.
  [[gnu::always_inline]] uintptr_t Take(size_t num_lines) {
    const uintptr_t first = next_;
    next_ += num_lines * kLineBytes;
    if (next_ >= end_) Follow();
    return first;
  }

 private:
  // On to the next page.
  [[gnu::always_inline]] void Follow() {
    if (left_.num_bytes == 0) {
      left_ = second_;
      second_.num_bytes = 0;
    }
    if (left_.num_bytes == 0) {
      next_ = last_page_;
      end_ = next_ + second_.page_bytes;
      return;
    }
    const size_t num_bytes =
        left_.num_bytes < left_.page_bytes ? left_.num_bytes : left_.page_bytes;
    next_ = reinterpret_cast<uintptr_t>(*left_.pages++);
    end_ = next_ + num_bytes;
    left_.num_bytes -= num_bytes;
  }

  uintptr_t next_;
  uintptr_t end_;  // of the page
  Stream left_;    // behind the page
  Stream second_;  // without bytes once it has begun
  uintptr_t last_page_;
};

// Lines that a kernel prefetches; without any, false.
struct PrefetchedLines {
  const uintptr_t* lines = nullptr;
  bool into_first_level = false;

  [[gnu::always_inline]] explicit operator bool() const {
    return lines != nullptr;
  }
};

// A list of lines in work. The caller's list moves on when Finish() is called.
class AheadCursor {
 public:
  // Lines of a step at most.
  static constexpr size_t kMaxLines = 20;

  [[gnu::always_inline]] explicit AheadCursor(LinesAhead* list)
      : list_(list),
        next_(list == nullptr ? nullptr : list->next),
        end_(list == nullptr ? nullptr : list->end),
        into_first_level_(list != nullptr && list->into_first_level) {}
  AheadCursor(const AheadCursor&) = delete;
  AheadCursor& operator=(const AheadCursor&) = delete;

  // What the list names comes into the first level: no need to prefetch it
  // again shortly before it is read.
  [[gnu::always_inline]] bool into_first_level() const {
    return into_first_level_;
  }

  // The next kLines lines, to be prefetched by the caller, spread over its
  // work: many at once wait for each other, and hold up what they should run
  // beside. None once the list is at its end. Valid until the next call.
  template <size_t kLines>
  [[gnu::always_inline]] PrefetchedLines Take() {
    static_assert(kLines <= kMaxLines);
    if (next_ == end_) return {};
    const PrefetchedLines lines = {next_, into_first_level_};
    if (static_cast<size_t>(end_ - next_) >= kLines) {
      next_ += kLines;
      return lines;
    }
    for (uintptr_t& line : last_) {
      line = *next_;
      if (next_ + 1 != end_) ++next_;
    }
    next_ = end_;
    return {last_, into_first_level_};
  }

  [[gnu::always_inline]] void Finish() {
    if (list_ != nullptr) list_->next = next_;
  }

 private:
  LinesAhead* list_;
  const uintptr_t* next_;
  const uintptr_t* end_;
  bool into_first_level_;
  uintptr_t last_[kMaxLines];  // fewer than kLines, the last one repeated
};

// Prefetches those of kLines lines that belong to part `part` of kParts
// equal parts of work.
template <size_t kLines, size_t kParts>
[[gnu::always_inline]] inline void PrefetchPart(
    const PrefetchedLines& prefetched, size_t part) {
  const size_t begin = kLines * part / kParts;
  const size_t end = kLines * (part + 1) / kParts;
  if (prefetched.into_first_level) {
    for (size_t i = begin; i < end; ++i) PrefetchLine<3>(prefetched.lines[i]);
  } else {
    for (size_t i = begin; i < end; ++i) PrefetchLine<2>(prefetched.lines[i]);
  }
}

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_AHEAD_H_
