// Sums of listed rows with coefficients, of block-quantised rows.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quant_add_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_rows-inl.h"
#include "kernels/cpu/quant_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// Steps of kRows rows, and with kPrefetch the lines to be prefetched. Their
// terms come to out [kStepElems] one after the other, so that the number of
// rows changes how often out is loaded, never a sum.
template <class Format, bool kPrefetch, size_t kRows>
HWY_INLINE void AddQuants(const QuantStep (&steps)[kRows], const float* coefs,
                          const PrefetchedLines& prefetch, float* out) {
  constexpr size_t kLines = LinesOf(kRows * Format::kStepBytes);
  constexpr size_t kVectors = 32 / kLanes;
  const hn::Rebind<int8_t, Floats> bytes;
  const hn::Rebind<int32_t, Floats> ints;
  for (size_t e = 0; e < kStepElems; e += 32) {
    if constexpr (kPrefetch)
      PrefetchPart<kLines, kStepElems / 32>(prefetch, e / 32);
    FloatVec sums[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      sums[v] = hn::LoadU(Floats(), out + e + v * kLanes);
    }
    for (size_t r = 0; r < kRows; ++r) {
      const int8_t* q = Format::Quants(steps[r], e);
      for (size_t v = 0; v < kVectors; ++v) {
        const size_t elem = e + v * kLanes;
        const FloatVec scale =
            hn::Set(Floats(), steps[r].scale[elem / Format::kScaleElems]);
        FloatVec quants = hn::ConvertTo(
            Floats(), hn::PromoteTo(ints, hn::LoadU(bytes, q + v * kLanes)));
        if constexpr (Format::kHasMin) {
          const FloatVec min = hn::Set(Floats(), steps[r].min[elem / 32]);
          sums[v] = hn::MulAdd(hn::MulAdd(quants, scale, min),
                               hn::Set(Floats(), coefs[r]), sums[v]);
        } else {
          sums[v] = hn::MulAdd(quants, scale, sums[v]);
        }
      }
    }
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[v], Floats(), out + e + v * kLanes);
    }
  }
}

#if HWY_TARGET == HWY_AVX3
// What nibbles 0 .. 15 of 32 elements are worth, and what that is to be
// multiplied with.
struct NibbleTable {
  FloatVec values;
  FloatVec factor;
};

template <class Format>
HWY_INLINE NibbleTable TableOf(const QuantStep& step, float coef, size_t idx) {
  const FloatVec nibbles = hn::Iota(Floats(), 0.0f);
  const FloatVec scale = hn::Set(Floats(), step.scale[idx]);
  if constexpr (Format::kHasMin) {
    return {hn::MulAdd(nibbles, scale, hn::Set(Floats(), step.min[idx])),
            hn::Set(Floats(), coef)};
  } else {
    return {hn::Sub(nibbles, hn::Set(Floats(), 8.0f)), scale};
  }
}

// As AddQuants, from nibbles straight to what they are worth: nothing is
// unpacked to bytes and converted.
template <class Format, bool kPrefetch, size_t kRows>
HWY_INLINE void AddNibbles(const QuantStep (&steps)[kRows], const float* coefs,
                           const PrefetchedLines& prefetch, float* out) {
  constexpr size_t kLines = LinesOf(kRows * Format::kStepBytes);
  constexpr bool kIsSplit = Format::kNibbles == Nibbles::kSubBlocks;
  const auto add = [](const NibbleTable& table, __m512i nibbles,
                      FloatVec sum) HWY_ATTR {
    // The permutation takes four bits of an index and ignores the others.
    const FloatVec values = {_mm512_permutexvar_ps(nibbles, table.values.raw)};
    return hn::MulAdd(values, table.factor, sum);
  };
  for (size_t e = 0; e < kStepElems; e += 64) {
    if constexpr (kPrefetch)
      PrefetchPart<kLines, kStepElems / 64>(prefetch, e / 64);
    FloatVec sums[4];
    for (size_t v = 0; v < 4; ++v) {
      sums[v] = hn::LoadU(Floats(), out + e + v * kLanes);
    }
    for (size_t r = 0; r < kRows; ++r) {
      const NibbleTable first = TableOf<Format>(steps[r], coefs[r], e / 32);
      const NibbleTable second =
          TableOf<Format>(steps[r], coefs[r], e / 32 + 1);
      const auto load = [&](size_t half) HWY_ATTR {
        return _mm512_cvtepu8_epi32(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(
                Format::NibblesAt(steps[r], e, half))));
      };
      const __m512i q0 = load(0);
      const __m512i q1 = load(1);
      const __m512i high0 = _mm512_srli_epi32(q0, 4);
      const __m512i high1 = _mm512_srli_epi32(q1, 4);
      sums[0] = add(first, q0, sums[0]);
      sums[1] = add(first, kIsSplit ? q1 : high0, sums[1]);
      sums[2] = add(second, kIsSplit ? high0 : q1, sums[2]);
      sums[3] = add(second, high1, sums[3]);
    }
    for (size_t v = 0; v < 4; ++v) {
      hn::StoreU(sums[v], Floats(), out + e + v * kLanes);
    }
  }
}
#endif

template <class Format, bool kPrefetch, size_t kRows>
HWY_INLINE void AddStep(const std::byte* const (&blocks)[kRows],
                        const float* coefs, const PrefetchedLines& prefetch,
                        float* out) {
  QuantStep steps[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    steps[r].blocks = blocks[r];
    Format::UnpackScales(coefs[r], steps[r]);
  }
#if HWY_TARGET == HWY_AVX3
  if constexpr (Format::kNibbles != Nibbles::kNone) {
    AddNibbles<Format, kPrefetch>(steps, coefs, prefetch, out);
    return;
  }
#endif
  for (size_t r = 0; r < kRows; ++r) Format::UnpackQuants(steps[r]);
  AddQuants<Format, kPrefetch>(steps, coefs, prefetch, out);
}

// The last columns, fewer than a step has: on copies filled up with zeros.
template <class Format, size_t kRows>
void AddRest(const std::byte* const (&rows)[kRows], const float* coefs,
             size_t count, const PrefetchedLines& prefetch, float* out) {
  std::byte padded[kRows][Format::kStepBytes] = {};
  const std::byte* blocks[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    std::memcpy(padded[r], rows[r],
                count / Format::kBlockElems * Format::kBlockBytes);
    blocks[r] = padded[r];
  }
  if (prefetch) {
    PrefetchPart<LinesOf(kRows * Format::kStepBytes), 1>(prefetch, 0);
  }
  HWY_ALIGN float sums[kStepElems] = {};
  std::memcpy(sums, out, count * sizeof(float));
  AddStep<Format, false>(blocks, coefs, {}, sums);
  std::memcpy(out, sums, count * sizeof(float));
}

HWY_INLINE const std::byte* RowOf(const AddRowsArgs& args, size_t i) {
  const size_t id = args.ids == nullptr ? i : args.ids[i];
  return args.rows + id * args.row_bytes;
}

// How far ahead of its use a listed row, which is in the second level of the
// cache at least, is prefetched into the first.
constexpr size_t kNearBytes = 512;

// Prefetches what comes kNearBytes behind `offset` in each of kRows rows:
// in the row, or behind its end in the row that follows.
template <size_t kStepBytes, size_t kRows>
HWY_INLINE void PrefetchNear(const std::byte* const (&rows)[kRows],
                             const std::byte* const (&following)[kRows],
                             size_t offset, size_t row_bytes) {
  const size_t near = offset + kNearBytes;
  for (size_t r = 0; r < kRows; ++r) {
    PrefetchBytes<3>(
        near < row_bytes
            ? reinterpret_cast<uintptr_t>(rows[r]) + near
            : reinterpret_cast<uintptr_t>(following[r]) + near - row_bytes,
        kStepBytes);
  }
}

template <class Format, size_t kRows>
void AddPass(const AddRowsArgs& args, size_t first_row, AheadCursor& lines) {
  const std::byte* rows[kRows];
  const std::byte* following[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    const size_t i = first_row + r;
    rows[r] = RowOf(args, i);
    following[r] = RowOf(args, std::min(i + kRows, args.num_rows - 1));
  }
  const float* coefs = args.coefs + first_row;
  const auto bytes_of = [](size_t num_elems) {
    return num_elems / Format::kBlockElems * Format::kBlockBytes;
  };
  for (size_t c = 0; c < args.n; c += kStepElems) {
    const PrefetchedLines prefetch =
        lines.Take<LinesOf(kRows * Format::kStepBytes)>();
    const std::byte* blocks[kRows];
    for (size_t r = 0; r < kRows; ++r) blocks[r] = rows[r] + bytes_of(c);
    const size_t count = std::min(kStepElems, args.n - c);
    float* out = args.out + c;
    if (count < kStepElems) {
      AddRest<Format>(blocks, coefs, count, prefetch, out);
    } else if (!prefetch) {
      AddStep<Format, false>(blocks, coefs, prefetch, out);
    } else {
      PrefetchNear<Format::kStepBytes>(rows, following, bytes_of(c),
                                       bytes_of(args.n));
      AddStep<Format, true>(blocks, coefs, prefetch, out);
    }
  }
}

// An AddRowsFn.
template <class Format>
void AddQuantRows(const AddRowsArgs& args) {
  AheadCursor lines(args.ahead);
  size_t i = 0;
  for (; i + 4 <= args.num_rows; i += 4) AddPass<Format, 4>(args, i, lines);
  const size_t rest = args.num_rows - i;
  if (rest == 3) AddPass<Format, 3>(args, i, lines);
  if (rest == 2) AddPass<Format, 2>(args, i, lines);
  if (rest == 1) AddPass<Format, 1>(args, i, lines);
  lines.Finish();
}

void FillQuants(KernelTable& table) {
  const auto entry = [&table](DType dtype) -> AddRowsFn& {
    return table.add_rows_by_type[static_cast<uint32_t>(dtype)];
  };
  entry(DType::kQ8_0) = AddQuantRows<Q8_0>;
  entry(DType::kQ4_0) = AddQuantRows<Q4_0>;
  entry(DType::kQ4_1) = AddQuantRows<Q4_1>;
  entry(DType::kQ5_0) = AddQuantRows<Q5_0>;
  entry(DType::kQ5_1) = AddQuantRows<Q5_1>;
  entry(DType::kQ4_K) = AddQuantRows<Q4_K>;
  entry(DType::kQ5_K) = AddQuantRows<Q5_K>;
  entry(DType::kQ6_K) = AddQuantRows<Q6_K>;
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace thermocline::kernels {

void FillQuantAddRows(Isa isa, KernelTable& table) {
  TC_CALL_FOR_ISA(isa, FillQuants, table)
}

}  // namespace thermocline::kernels
#endif
