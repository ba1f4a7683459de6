// The loops that int8 sums of listed rows (AddRowsFn) share: passes of a group
// of rows, panels of columns, the lines that are prefetched, and the end of a
// row. What a step of 256 columns computes is a Kernel, written per ISA and
// weight type.
//
// A Kernel has
//   kBlockBytes, kBlockElems, kStepBytes
//   RowCoefs       the coefficients of a pass
//   StepCoefs      what a step's quants are multiplied with
//   RowCoefs CoefsOf(const float* coefs, size_t num_rows)    1 to 8 rows
//   void MakeStepCoefs(const std::byte* const (&blocks)[kPassRows],
//                      const RowCoefs&, StepCoefs& out)
//   void AddStep<kHalves, kPrefetch>(const std::byte* const (&blocks)[4 *
//   kHalves],
//                               const StepCoefs&, const PrefetchedLines& ask,
//                               float* out)
//     out [256] += the step's sums; prefetches, if kPrefetch, as many lines of
//     the list `prefetch` as its blocks have bytes for (LinesOf)
//
// As in int8_driver.h, Kernels live in unnamed namespaces, so that the linker
// cannot give one ISA's code to another, and nothing here is an ordinary inline
// function.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_ADD_ROWS_DRIVER_H_
#define THERMOCLINE_KERNELS_CPU_INT8_ADD_ROWS_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ahead.h"
#include "kernels/kernels.h"

namespace thermocline::kernels {

template <class Kernel>
class Int8AddRows {
 public:
  // An AddRowsFn.
  static void Run(const AddRowsArgs& args) {
    AheadCursor lines(args.ahead);
    for (size_t i = 0; i < args.num_rows; i += kRows) {
      const size_t num_rows =
          args.num_rows - i < kRows ? args.num_rows - i : kRows;
      if (num_rows > kHalfRows) {
        Pass<2>(args, i, num_rows, lines);
      } else {
        Pass<1>(args, i, num_rows, lines);
      }
    }
    lines.Finish();
  }

  static void Fill(DType dtype, KernelTable& table) {
    table.add_rows_by_type[static_cast<uint32_t>(dtype)] = &Run;
  }

 private:
  using RowCoefs = typename Kernel::RowCoefs;
  using StepCoefs = typename Kernel::StepCoefs;

  static constexpr size_t kStepElems = 256;
  static constexpr size_t kRows = kAddRowsGroup;
  static constexpr size_t kHalfRows = kRows / 2;
  static_assert(kRows == 8);
  // Elements whose coefficients are made at once.
  static constexpr size_t kPanelElems = 16 * kStepElems;

  static constexpr size_t BytesOf(size_t num_elems) {
    return num_elems / Kernel::kBlockElems * Kernel::kBlockBytes;
  }

  static const std::byte* RowOf(const AddRowsArgs& args, size_t i) {
    const size_t id = args.ids == nullptr ? i : args.ids[i];
    return args.rows + id * args.row_bytes;
  }

  // Up to kHalves * 4 rows; those that are missing are the first, with nothing.
  // Whole steps are done a panel at a time: first what they are multiplied
  // with, whose long chains of operations then run side by side.
  template <size_t kHalves>
  static void Pass(const AddRowsArgs& args, size_t first_row, size_t num_rows,
                   AheadCursor& lines) {
    constexpr size_t kPassRows = kHalves * kHalfRows;
    const std::byte* rows[kPassRows];
    const std::byte* following[kPassRows];
    for (size_t r = 0; r < kPassRows; ++r) {
      const size_t i = first_row + (r < num_rows ? r : 0);
      rows[r] = RowOf(args, i);
      const size_t next = first_row + kRows + r;
      following[r] = RowOf(args, next < args.num_rows ? next : i);
    }
    const RowCoefs coefs = Kernel::CoefsOf(args.coefs + first_row, num_rows);
    const size_t whole = args.n / kStepElems * kStepElems;
    for (size_t c = 0; c < whole; c += kPanelElems) {
      const size_t left = whole - c;
      const bool is_last = left <= kPanelElems;
      AddPanel<kHalves>(rows, is_last ? following : rows,
                        is_last ? 0 : BytesOf(c + kPanelElems), coefs, c,
                        is_last ? left : kPanelElems, lines, args.out);
    }
    if (whole == args.n) return;
    constexpr size_t kLines = LinesOf(kPassRows * Kernel::kStepBytes);
    const PrefetchedLines prefetch = lines.template Take<kLines>();
    if (prefetch) PrefetchPart<kLines, 1>(prefetch, 0);
    AddRest<kHalves>(rows, coefs, whole, args.n - whole, args.out + whole);
  }

  // Columns [begin, begin + count) of rows. What comes next begins
  // `next_offset` bytes into rows `next`, which lie in the second level of the
  // cache at least, and is prefetched into the first unless the list did that.
  template <size_t kHalves>
  static void AddPanel(const std::byte* const (&rows)[kHalves * kHalfRows],
                       const std::byte* const (&next)[kHalves * kHalfRows],
                       size_t next_offset, const RowCoefs& row_coefs,
                       size_t begin, size_t count, AheadCursor& lines,
                       float* out) {
    constexpr size_t kPassRows = kHalves * kHalfRows;
    StepCoefs coefs[kPanelElems / kStepElems];
    const std::byte* blocks[kPassRows];
    for (size_t c = 0; c < count; c += kStepElems) {
      for (size_t r = 0; r < kPassRows; ++r) {
        blocks[r] = rows[r] + BytesOf(begin + c);
      }
      Kernel::MakeStepCoefs(blocks, row_coefs, coefs[c / kStepElems]);
    }
    for (size_t c = 0; c < count; c += kStepElems) {
      for (size_t r = 0; r < kPassRows; ++r) {
        blocks[r] = rows[r] + BytesOf(begin + c);
      }
      const PrefetchedLines prefetch =
          lines.template Take<LinesOf(kPassRows * Kernel::kStepBytes)>();
      float* sums = out + begin + c;
      if (!prefetch) {
        Kernel::template AddStep<kHalves, false>(blocks, coefs[c / kStepElems],
                                                 prefetch, sums);
        continue;
      }
      for (size_t r = 0; r < kPassRows && !lines.into_first_level(); ++r) {
        PrefetchBytes<3>(
            reinterpret_cast<uintptr_t>(next[r]) + next_offset + BytesOf(c),
            Kernel::kStepBytes);
      }
      Kernel::template AddStep<kHalves, true>(blocks, coefs[c / kStepElems],
                                              prefetch, sums);
    }
  }

  // The last columns, fewer than a step has: on copies filled up with zeros.
  template <size_t kHalves>
  static void AddRest(const std::byte* const (&rows)[kHalves * kHalfRows],
                      const RowCoefs& row_coefs, size_t begin, size_t count,
                      float* out) {
    constexpr size_t kPassRows = kHalves * kHalfRows;
    std::byte padded[kPassRows][Kernel::kStepBytes] = {};
    const std::byte* copies[kPassRows];
    for (size_t r = 0; r < kPassRows; ++r) {
      __builtin_memcpy(padded[r], rows[r] + BytesOf(begin), BytesOf(count));
      copies[r] = padded[r];
    }
    alignas(64) float sums[kStepElems] = {};
    __builtin_memcpy(sums, out, count * sizeof(float));
    StepCoefs coefs;
    Kernel::MakeStepCoefs(copies, row_coefs, coefs);
    Kernel::template AddStep<kHalves, false>(copies, coefs, {}, sums);
    __builtin_memcpy(out, sums, count * sizeof(float));
  }
};

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_INT8_ADD_ROWS_DRIVER_H_
