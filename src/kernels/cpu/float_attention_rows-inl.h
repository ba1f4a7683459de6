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
#include "kernels/cpu/float_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// So far ahead of what is read: more is not faster. Half as much does for
// Intel; Zen 4 reads F16 for one to four heads 1.1 to 1.3 times as fast with
// this.
constexpr size_t kAheadBytes = 8192;

// Asks for the cache lines of num_bytes that are read later, in the
// second-level cache: in the first they would push out what is used now.
HWY_INLINE void PrefetchBytes(uintptr_t address, size_t num_bytes) {
  for (size_t i = 0; i < num_bytes; i += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + i), 0, 2);
  }
}

// The keys or the values of a piece, as they lie in the cache.
template <class Row>
struct Stored {
  const std::byte* rows;
  size_t row_bytes;
  size_t num_rows;
  const std::byte* next;  // what is read after them
  size_t rows_ahead = kAheadBytes / row_bytes;

  HWY_INLINE const std::byte* row(size_t r) const {
    return rows + r * row_bytes;
  }

  HWY_INLINE Stored From(size_t r) const {
    return {row(r), row_bytes, num_rows - r, next};
  }

  HWY_INLINE FloatVec Load(size_t r, size_t i) const {
    return Row::Load(row(r), i);
  }

  // Asks for what lies kAheadBytes after the elements [i, i + n) of row r. The
  // hardware alone stops at every page, and sees nothing coming while few
  // instructions read.
  HWY_INLINE void Prefetch(size_t r, size_t i, size_t n) const {
    const size_t ahead = r + rows_ahead;
    // The address may be past the cache, where no pointer may point.
    const uintptr_t row =
        ahead < num_rows ? reinterpret_cast<uintptr_t>(rows) + ahead * row_bytes
                         : reinterpret_cast<uintptr_t>(next) +
                               (ahead - num_rows) * row_bytes;
    PrefetchBytes(row + i * Row::kBytesOf32 / 32, n * Row::kBytesOf32 / 32);
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
