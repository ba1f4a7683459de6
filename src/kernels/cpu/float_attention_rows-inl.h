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
#include "tensor/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// So far ahead of what is read: less is slower, more is not faster.
constexpr size_t kAheadBytes = 4096;

// Q8_0 with a cheaper scale: four halves at its place become floats where one
// that fills a vector would take as many steps as the quants.
struct CachedQ8Row : Q8Row {
  static HWY_INLINE FloatVec Load(const std::byte* row, size_t i) {
    const hn::CappedTag<float, 4> four;
    const hn::Rebind<hwy::float16_t, decltype(four)> halves;
    const hn::Rebind<int8_t, Floats> bytes;
    const hn::Rebind<int32_t, Floats> ints;
    const std::byte* block = row + i / kBlock * sizeof(BlockQ8_0);
    const std::byte* quants = block + offsetof(BlockQ8_0, qs) + i % kBlock;
    const auto scale = hn::PromoteTo(
        four,
        hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(block)));
    const auto ints_of_quants = hn::PromoteTo(
        ints, hn::LoadU(bytes, reinterpret_cast<const int8_t*>(quants)));
    return hn::Mul(hn::Set(Floats(), hn::GetLane(scale)),
                   hn::ConvertTo(Floats(), ints_of_quants));
  }
};

// Of 32 elements.
template <class Row>
HWY_INLINE constexpr size_t BytesOf32() {
  if constexpr (requires { Row::kElemBytes; }) {
    return 32 * Row::kElemBytes;
  } else {
    return sizeof(BlockQ8_0);
  }
}

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
    PrefetchBytes(row + i * BytesOf32<Row>() / 32, n * BytesOf32<Row>() / 32);
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
