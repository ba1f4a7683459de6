// Keys and values as vectors of f32: as they lie in the cache, or unpacked into
// a scratch for many queries.
#if defined(THERMOCLINE_KERNELS_CPU_FLOAT_ATTENTION_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef THERMOCLINE_KERNELS_CPU_FLOAT_ATTENTION_ROWS_INL_H_
#undef THERMOCLINE_KERNELS_CPU_FLOAT_ATTENTION_ROWS_INL_H_
#else
#define THERMOCLINE_KERNELS_CPU_FLOAT_ATTENTION_ROWS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/ahead.h"
#include "kernels/cpu/float_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// So far ahead of what is read, in all pieces together: more is not faster. For
// one piece, half as much does for Intel; Zen 4 reads F16 for one to four heads
// 1.1 to 1.3 times as fast with this.
constexpr size_t kAheadBytes = 8192;

// Rows that are asked for into the first level of the cache, which pays in a
// few cases (AsksIntoFirstLevel()). Else it is the second: in the first they
// would push out what is used now.
template <class Row>
struct IntoFirstLevel : Row {
  static constexpr bool kIntoFirstLevel = true;
};

// The keys or the values of a piece, as they lie in the cache.
template <class Row>
struct Stored {
  const std::byte* rows;
  size_t row_bytes;
  size_t num_rows;
  // What is read after them: an address, as it may be past what a pointer may
  // point to, or 0.
  uintptr_t next;
  size_t next_row_bytes;
  size_t rows_ahead;  // of what is read, asked for

  HWY_INLINE const std::byte* row(size_t r) const {
    return rows + r * row_bytes;
  }

  HWY_INLINE Stored From(size_t r) const {
    Stored rest = *this;
    rest.rows += r * row_bytes;
    rest.num_rows -= r;
    return rest;
  }

  HWY_INLINE Stored OfPiece(size_t piece_idx) const {
    Stored piece = *this;
    piece.rows += piece_idx * kAttentionPiece * row_bytes;
    piece.next += piece_idx * kAttentionPiece * next_row_bytes;
    return piece;
  }

  HWY_INLINE FloatVec Load(size_t r, size_t i) const {
    return Row::Load(row(r), i);
  }

  // Asks for what is read rows_ahead after the elements [i, i + n) of row r.
  // The hardware alone stops at every page, and sees nothing coming while few
  // instructions read.
  HWY_INLINE void Prefetch(size_t r, size_t i, size_t n) const {
    const size_t ahead = r + rows_ahead;
    const uintptr_t row =
        ahead < num_rows ? reinterpret_cast<uintptr_t>(rows) + ahead * row_bytes
                         : next + (ahead - num_rows) * next_row_bytes;
    constexpr int kLocality = requires { Row::kIntoFirstLevel; } ? 3 : 2;
    AskForBytes<kLocality>(row + i * Row::kBytesOf32 / 32,
                           n * Row::kBytesOf32 / 32);
  }
};

// Rows in the scratch.
struct Unpacked {
  const float* rows;
  size_t stride;

  HWY_INLINE FloatVec Load(size_t r, size_t i) const {
    return hn::Load(Floats(), rows + r * stride + i);
  }
  HWY_INLINE void Prefetch(size_t /*r*/, size_t /*i*/, size_t /*n*/) const {}
};

// The rows [begin, end), n wide, as floats, zeros up to a whole vector,
// `stride` apart.
template <class Row>
HWY_INLINE void Unpack(const Stored<Row>& stored, size_t begin, size_t end,
                       size_t n, size_t stride, float* out) {
  for (size_t r = begin; r < end; ++r, out += stride) {
    const std::byte* row = stored.row(r);
    stored.Prefetch(r, 0, n);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
      for (size_t j = i; j < i + 32; j += kLanes) {
        hn::Store(Row::Load(row, j), Floats(), out + j);
      }
    }
    for (; i + kLanes <= n; i += kLanes) {
      hn::Store(Row::Load(row, i), Floats(), out + i);
    }
    if (i < n) hn::Store(Row::LoadTail(row, i, n - i), Floats(), out + i);
  }
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // THERMOCLINE_KERNELS_CPU_FLOAT_ATTENTION_ROWS_INL_H_
