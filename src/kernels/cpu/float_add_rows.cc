// Sums of listed rows with coefficients, of F32, F16 and BF16 rows.
#include "kernels/cpu/ahead.h"
#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float_add_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/float_rows-inl.h"

#if HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

HWY_INLINE const std::byte* RowOf(const AddRowsArgs& args, size_t i) {
  const size_t id = args.ids == nullptr ? i : args.ids[i];
  return args.rows + id * args.row_bytes;
}

// out[c] += sum over r of coefs[r] * rows[r][c], one term after the other: the
// number of rows per pass changes how often out is loaded, never a sum.
template <class Row, size_t kRows>
HWY_INLINE void AddPass(const std::byte* const (&rows)[kRows],
                        const float* coefs, size_t n, AheadCursor& lines,
                        float* out) {
  FloatVec scales[kRows];
  for (size_t r = 0; r < kRows; ++r) scales[r] = hn::Set(Floats(), coefs[r]);
  size_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    if (c * Row::kBytesOf32 / 32 % kLineBytes == 0) {
      const PrefetchedLines prefetch = lines.Take<kRows>();
      if (prefetch) PrefetchPart<kRows, 1>(prefetch, 0);
    }
    FloatVec sum = hn::LoadU(Floats(), out + c);
    for (size_t r = 0; r < kRows; ++r) {
      sum = hn::MulAdd(Row::Load(rows[r], c), scales[r], sum);
    }
    hn::StoreU(sum, Floats(), out + c);
  }
  if (c == n) return;
  FloatVec sum = LoadN(out + c, n - c);
  for (size_t r = 0; r < kRows; ++r) {
    sum = hn::MulAdd(Row::LoadTail(rows[r], c, n - c), scales[r], sum);
  }
  StoreN(sum, out + c, n - c);
}

template <class Row>
void AddFloatRows(const AddRowsArgs& args) {
  AheadCursor lines(args.ahead);
  size_t i = 0;
  for (; i + 4 <= args.num_rows; i += 4) {
    AddPass<Row, 4>({RowOf(args, i), RowOf(args, i + 1), RowOf(args, i + 2),
                     RowOf(args, i + 3)},
                    args.coefs + i, args.n, lines, args.out);
  }
  for (; i < args.num_rows; ++i) {
    AddPass<Row, 1>({RowOf(args, i)}, args.coefs + i, args.n, lines, args.out);
  }
  lines.Finish();
}

void FillTypes(KernelTable& table) {
  const auto entry = [&table](DType dtype) -> AddRowsFn& {
    return table.add_rows_by_type[static_cast<uint32_t>(dtype)];
  };
  entry(DType::kF32) = AddFloatRows<F32Row>;
  entry(DType::kF16) = AddFloatRows<F16Row>;
  entry(DType::kBF16) = AddFloatRows<BF16Row>;
}

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace thermocline::kernels {

void FillFloatAddRows(Isa isa, KernelTable& table) {
  TC_CALL_FOR_ISA(isa, FillTypes, table)
}

}  // namespace thermocline::kernels
#endif
