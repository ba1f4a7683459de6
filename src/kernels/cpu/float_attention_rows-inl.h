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

// Rows that are prefetched into the first level of the cache, which pays in a
// few cases (PrefetchesIntoFirstLevel()). Else it is the second: in the first
// they would push out what is used now.
template <class Row>
struct IntoFirstLevel : Row {
  static constexpr bool kIntoFirstLevel = true;
};

// A few rows of a page, as they lie in the cache, and what is prefetched while
// they are read: an address, as it may be past what a pointer may point to.
template <class Row>
struct StoredRows {
  const std::byte* rows;
  size_t row_bytes;
  uintptr_t ahead;
  size_t ahead_row_bytes;

  HWY_INLINE const std::byte* row(size_t r) const {
    return rows + r * row_bytes;
  }
  HWY_INLINE FloatVec Load(size_t r, size_t i) const {
    return Row::Load(row(r), i);
  }
  // Prefetches what lies as the elements [i, i + n) of row r do. The
  // hardware alone stops at every page of memory, and sees nothing coming while
  // few instructions read.
  HWY_INLINE void Prefetch(size_t r, size_t i, size_t n) const {
    constexpr int kLocality = requires { Row::kIntoFirstLevel; } ? 3 : 2;
    PrefetchBytes<kLocality>(
        ahead + r * ahead_row_bytes + i * Row::kBytesOf32 / 32,
        n * Row::kBytesOf32 / 32);
  }
};

// Rows of a piece in pages.
struct PagesOfRows {
  const std::byte* const* pages;
  size_t row_bytes;
  size_t begin;  // of the first page that some query sees part of
  size_t num_rows;
  size_t piece_pages;  // from here to those of the next piece

  HWY_INLINE const std::byte* row(size_t r) const {
    return pages[r / kKvPage] + r % kKvPage * row_bytes;
  }
  HWY_INLINE PagesOfRows OfPiece(size_t piece_idx) const {
    PagesOfRows piece = *this;
    piece.pages += piece_idx * piece_pages;
    return piece;
  }
};

// The keys or the values of a piece, as they lie in the cache.
template <class Row>
struct Stored {
  PagesOfRows rows;
  PagesOfRows next;  // what is read after them
  // So many rows are read together, or half as many; of the two that follow,
  // both are multiples.
  size_t together;
  size_t end;         // the first one behind the last row
  size_t rows_ahead;  // of what is read, prefetched

  HWY_INLINE size_t begin() const { return rows.begin; }
  HWY_INLINE size_t num_rows() const { return rows.num_rows; }

  HWY_INLINE Stored OfPiece(size_t piece_idx) const {
    Stored piece = *this;
    piece.rows = rows.OfPiece(piece_idx);
    piece.next = next.OfPiece(piece_idx);
    return piece;
  }

  // Rows that are read together, from row r on: all in one page, and so are
  // those that are prefetched. Where nothing is read next, they are what is
  // read now.
  HWY_INLINE StoredRows<Row> At(size_t r) const {
    const std::byte* here = rows.row(r);
    const size_t later = r + rows_ahead;
    if (later < rows.num_rows) {
      return {here, rows.row_bytes,
              reinterpret_cast<uintptr_t>(rows.row(later)), rows.row_bytes};
    }
    const size_t after = next.begin + (later > end ? later - end : 0);
    if (after < next.num_rows) {
      return {here, rows.row_bytes,
              reinterpret_cast<uintptr_t>(next.row(after)), next.row_bytes};
    }
    return {here, rows.row_bytes, reinterpret_cast<uintptr_t>(here),
            rows.row_bytes};
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

// The first `count` rows, n wide, as floats, zeros up to a whole vector,
// `stride` apart.
template <class Row>
HWY_INLINE void Unpack(const StoredRows<Row>& stored, size_t count, size_t n,
                       size_t stride, float* out) {
  for (size_t r = 0; r < count; ++r, out += stride) {
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
