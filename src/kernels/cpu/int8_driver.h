// The loops that every int8 product shares, of a matrix (MatMulFn) and of the
// rows in a list (DotRowsFn): rows, tokens, and the end of a row. What a step
// computes is a Format, written per ISA and weight type.
//
// A step is kStepBlocks blocks of one weight row times the same elements of an
// activation row. Activations are prepared in the order that the format's
// unpacking leaves weights in, once for many rows, a panel of steps at a time.
// Each (row, token) has its own accumulator, which sees the steps in order, so
// blocking changes nothing in the result. A last step that is not whole meets
// zeros of the input: it reads on into the rows that follow, or a copy padded
// with zeros where those may not be read or are not finite.
//
// A Format has
//   kBlockBytes, kBlockElems, kStepBlocks
//   Weights, Input, Acc                 made of vector registers
//   Weights Unpack(const std::byte*)    kStepBlocks blocks, unaligned
//   Input Prepare(const StepInput&)
//   Acc Zero()
//   Acc Step(const Weights&, const Input&, Acc)   acc + the step's product
//   kLeavesPrefetchToHardware   if so: streams are not prefetched ahead
//   Group<kRows>   if it likes: the sums of several rows, with
//       Group(const Acc[kRows]), Store(Acc[kRows]) and
//       Step(rows, offset, const Input&, prefetch): adds the products of the
//       steps that lie `offset` bytes behind rows[r]; calls prefetch(r) before
//       row r, or, of streams alone, prefetch.Share<kShares>(r, share) for all
//       shares of row r, spread over its work
//   float Reduce(Acc)
//
// The files that include this are compiled for one ISA each. Formats live in
// unnamed namespaces, so their instances of these templates stay in the file
// and the linker cannot give one ISA's code to another; for the same reason
// nothing here is an ordinary inline function.
#ifndef THERMOCLINE_KERNELS_CPU_INT8_DRIVER_H_
#define THERMOCLINE_KERNELS_CPU_INT8_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "kernels/activation_row.h"
#include "kernels/cpu/ahead.h"
#include "kernels/cpu/int8_prefetch.h"
#include "kernels/kernels.h"

namespace thermocline::kernels {

// The part of an activation row that one step reads. Only q is aligned.
struct StepInput {
  const float* d;
  const int16_t* sum;
  const int8_t* q;
};

// The part of a Group that has an accumulator for each row.
template <class Acc, size_t kRows>
struct RowSums {
  Acc sums[kRows];

  [[gnu::always_inline]] explicit RowSums(const Acc* acc) {
    for (size_t r = 0; r < kRows; ++r) sums[r] = acc[r];
  }
  [[gnu::always_inline]] void Store(Acc* acc) const {
    for (size_t r = 0; r < kRows; ++r) acc[r] = sums[r];
  }
};

template <class Format>
class Int8MatMul {
 public:
  // A MatMulFn.
  static void Run(const MatMulArgs& args) {
    if (args.num_tokens == 1) {
      MultiplyOne(args);
      return;
    }
    for (size_t row = 0; row < args.num_rows; row += kRowBlock) {
      for (size_t token = 0; token < args.num_tokens; token += kTokenBlock) {
        MultiplyMany(args, row, AtMost(kRowBlock, args.num_rows - row), token,
                     AtMost(kTokenBlock, args.num_tokens - token));
      }
    }
  }

  // A DotRowsFn.
  static void RunListed(const DotRowsArgs& args) {
    Input own_panel[kPanelInputs];
    PrefetchListed prefetch = {.lines = AheadCursor(args.ahead)};
    const bool is_kept = args.prepared != nullptr && args.num_tokens == 1 &&
                         args.n <= kPanelInputs * kStepElems;
    auto* panel =
        is_kept ? reinterpret_cast<Input*>(args.prepared->bytes) : own_panel;
    bool is_ready = is_kept && IsPreparedFor(args);
    for (size_t row = 0; row < args.num_rows; row += kRowBlock) {
      MultiplyListed(args, row, AtMost(kRowBlock, args.num_rows - row), panel,
                     is_ready, prefetch);
      is_ready = args.n <= kPanelInputs / args.num_tokens * kStepElems;
    }
    prefetch.lines.Finish();
    if (is_kept && args.num_rows > 0) {
      args.prepared->x = args.x;
      args.prepared->n = args.n;
      args.prepared->made_by = &kStepElems;
    }
  }

  static void FillMatMul(DType dtype, KernelTable& table) {
    table.matmul_by_type[static_cast<uint32_t>(dtype)] = &Run;
  }
  static void FillDotRows(DType dtype, KernelTable& table) {
    table.dot_rows_by_type[static_cast<uint32_t>(dtype)] = &RunListed;
  }
  static void Fill(DType dtype, KernelTable& table) {
    FillMatMul(dtype, table);
    FillDotRows(dtype, table);
  }

 private:
  using Weights = typename Format::Weights;
  using Input = typename Format::Input;
  using Acc = typename Format::Acc;

  static constexpr size_t kStepElems =
      size_t{Format::kStepBlocks} * Format::kBlockElems;
  static constexpr size_t kStepBytes =
      size_t{Format::kStepBlocks} * Format::kBlockBytes;

  // Rows that share prepared activations.
  static constexpr size_t kRowBlock = 32;
  // Tokens that share the unpacking of a step.
  static constexpr size_t kTokenBlock = 16;
  // Rows of each stream that share prepared activations.
  static constexpr size_t kStreamBlock = 4;
  // Prepared activations; small enough to stay in the first-level cache.
  static constexpr size_t kPanelBytes = PreparedInput::kMaxBytes;
  static constexpr size_t kPanelInputs = kPanelBytes / sizeof(Input);
  static_assert(kPanelInputs >= kTokenBlock);
  static_assert(kTokenBlock >= kListedTokens);

  static constexpr bool kLeavesPrefetchToHardware =
      requires { requires Format::kLeavesPrefetchToHardware; };
  using PrefetchListed = PrefetchList<kStepBytes>;

  static constexpr size_t AtMost(size_t max, size_t count) {
    return count < max ? count : max;
  }

  // One token. Its input is prepared once, if a panel holds all of it, else for
  // every few rows.
  static void MultiplyOne(const MatMulArgs& args) {
    Input panel[kPanelInputs];
    const bool is_ready = args.n <= kPanelInputs * kStepElems;
    if (is_ready) PreparePanel(args, 0, 0, args.n, 1, panel);
    const size_t stream_rows =
        args.num_rows >= kStreamRows ? args.num_rows / kStreams : 0;
    for (size_t row = 0; row < stream_rows; row += kStreamBlock) {
      MultiplyStreams<kStreams>(args, row,
                                AtMost(kStreamBlock, stream_rows - row),
                                stream_rows, panel, is_ready);
    }
    for (size_t row = kStreams * stream_rows; row < args.num_rows;
         row += kStreamBlock) {
      MultiplyStreams<1>(args, row, AtMost(kStreamBlock, args.num_rows - row),
                         0, panel, is_ready);
    }
  }

  // One token times num_rows rows of each of kRows streams, stream_rows apart.
  // is_ready: `panel` holds all of the token, prepared.
  template <size_t kRows>
  static void MultiplyStreams(const MatMulArgs& args, size_t first_row,
                              size_t num_rows, size_t stream_rows, Input* panel,
                              bool is_ready) {
    const auto sum = [&](const std::byte* readable_end) {
      return SumStreams<kRows>(args, first_row, num_rows, stream_rows, panel,
                               is_ready, readable_end);
    };
    if (sum(EndOf(args)) || args.n % kStepElems == 0) return;
    // Infinity may be of the row behind, whose scale was multiplied with 0.
    sum(nullptr);
  }

  // MultiplyStreams() with what MultiplyRows() may read. Whether all is finite.
  template <size_t kRows>
  static bool SumStreams(const MatMulArgs& args, size_t first_row,
                         size_t num_rows, size_t stream_rows, Input* panel,
                         bool is_ready, const std::byte* readable_end) {
    Acc acc[kStreamBlock][kRows];
    for (auto& of_streams : acc) {
      for (Acc& sum : of_streams) sum = Format::Zero();
    }
    const size_t stream_bytes = stream_rows * args.row_bytes;
    for (size_t elem = 0; elem < args.n;) {
      const size_t num_elems = PanelElems(args, elem, kPanelInputs);
      if (!is_ready) PreparePanel(args, 0, elem, num_elems, 1, panel);
      const size_t begin = elem / Format::kBlockElems * Format::kBlockBytes;
      for (size_t i = 0; i < num_rows; ++i) {
        const size_t offset = (first_row + i) * args.row_bytes + begin;
        const std::byte* rows[kRows];
        for (size_t r = 0; r < kRows; ++r) {
          rows[r] = args.weights + offset + r * stream_bytes;
        }
        PrefetchStreams<kStepBytes, kLeavesPrefetchToHardware> prefetch = {
            .stream_bytes = stream_bytes, .left_bytes = stream_bytes - offset};
        MultiplyRows(rows, readable_end, num_elems, panel, prefetch, acc[i]);
      }
      elem += num_elems;
    }
    float zero = 0.0f;  // else NaN
    for (size_t i = 0; i < num_rows; ++i) {
      for (size_t r = 0; r < kRows; ++r) {
        const float dot = Format::Reduce(acc[i][r]);
        args.out[first_row + i + r * stream_rows] = dot;
        zero += dot * 0.0f;
      }
    }
    return zero == 0.0f;
  }

  // Up to kTokenBlock tokens times up to kRowBlock rows. Accumulators stay in
  // memory, which costs nothing beside the arithmetic: every number of tokens
  // unpacks a step once.
  static void MultiplyMany(const MatMulArgs& args, size_t first_row,
                           size_t num_rows, size_t first_token,
                           size_t num_tokens) {
    Input panel[kPanelInputs];
    Acc acc[kRowBlock][kTokenBlock];
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t t = 0; t < num_tokens; ++t) acc[r][t] = Format::Zero();
    }
    const std::byte* weights = args.weights + first_row * args.row_bytes;
    for (size_t elem = 0; elem < args.n;) {
      const size_t num_elems =
          PanelElems(args, elem, kPanelInputs / num_tokens);
      for (size_t t = 0; t < num_tokens; ++t) {
        PreparePanel(args, first_token + t, elem, num_elems, num_tokens,
                     panel + t);
      }
      const std::byte* part =
          weights + elem / Format::kBlockElems * Format::kBlockBytes;
      PrefetchTokens<kStepBytes> prefetch;
      for (size_t r = 0; r < num_rows; ++r) {
        MultiplyTokens(part + r * args.row_bytes, num_elems, panel, num_tokens,
                       prefetch, acc[r]);
      }
      elem += num_elems;
    }
    for (size_t t = 0; t < num_tokens; ++t) {
      float* out = args.out + (first_token + t) * args.out_stride + first_row;
      for (size_t r = 0; r < num_rows; ++r) out[r] = Format::Reduce(acc[r][t]);
    }
  }

  // By this format's kernel. (An address of its own stands for it.)
  static bool IsPreparedFor(const DotRowsArgs& args) {
    const PreparedInput& prepared = *args.prepared;
    return prepared.x == args.x && prepared.n == args.n &&
           prepared.made_by == &kStepElems;
  }

  // Up to kRowBlock rows of a list times its tokens. is_ready: `panel` holds
  // all of them, prepared.
  static void MultiplyListed(const DotRowsArgs& args, size_t first_row,
                             size_t num_rows, Input* panel, bool is_ready,
                             PrefetchListed& prefetch) {
    const size_t num_tokens = args.num_tokens;
    const MatMulArgs product = {
        .n = args.n, .x = args.x, .x_stride_bytes = args.x_stride_bytes};
    Acc acc[kRowBlock * kListedTokens];  // [num_rows, T]
    for (size_t i = 0; i < num_rows * num_tokens; ++i) acc[i] = Format::Zero();
    for (size_t elem = 0; elem < args.n;) {
      const size_t num_elems =
          PanelElems(product, elem, kPanelInputs / num_tokens);
      if (!is_ready) {
        for (size_t t = 0; t < num_tokens; ++t) {
          PreparePanel(product, t, elem, num_elems, num_tokens, panel + t);
        }
      }
      const std::byte* rows[kRowBlock];
      for (size_t r = 0; r < num_rows; ++r) {
        rows[r] = args.rows + args.ids[first_row + r] * args.row_bytes +
                  elem / Format::kBlockElems * Format::kBlockBytes;
      }
      MultiplyParts(rows, num_rows, num_elems, panel, num_tokens, prefetch,
                    acc);
      elem += num_elems;
    }
    for (size_t t = 0; t < num_tokens; ++t) {
      float* out = args.out + t * args.out_stride + first_row;
      for (size_t r = 0; r < num_rows; ++r) {
        out[r] = Format::Reduce(acc[r * num_tokens + t]);
      }
    }
  }

  // The parts of rows that belong to a panel: several side by side for one
  // token, one at a time for many.
  static void MultiplyParts(const std::byte* const* rows, size_t num_rows,
                            size_t num_elems, const Input* panel,
                            size_t num_tokens, PrefetchListed& prefetch,
                            Acc* acc) {
    if (num_tokens > 1) {
      for (size_t r = 0; r < num_rows; ++r) {
        MultiplyTokens(rows[r], num_elems, panel, num_tokens, prefetch,
                       acc + r * num_tokens);
      }
      return;
    }
    prefetch.part_bytes = num_elems / Format::kBlockElems * Format::kBlockBytes;
    size_t r = 0;
    for (; r + kStreams <= num_rows; r += kStreams) {
      const std::byte* group[kStreams];
      for (size_t i = 0; i < kStreams; ++i) {
        group[i] = rows[r + i];
        const size_t next = AtMost(num_rows - 1, r + kStreams + i);
        prefetch.following[i] =
            reinterpret_cast<uintptr_t>(rows[next]) - prefetch.part_bytes;
      }
      MultiplyRows(group, nullptr, num_elems, panel, prefetch, acc + r);
    }
    for (; r < num_rows; ++r) {
      MultiplyRows({rows[r]}, nullptr, num_elems, panel, prefetch, acc + r);
    }
  }

  // Elements of a panel of num_steps steps that begins at `elem`.
  static size_t PanelElems(const MatMulArgs& args, size_t elem,
                           size_t num_steps) {
    const size_t left = args.n - elem;
    const size_t panel_elems = num_steps * kStepElems;
    return left < panel_elems ? left : panel_elems;
  }

  // Prepares elements [elem, elem + num_elems) of a token; step s goes to
  // inputs[s * stride].
  static void PreparePanel(const MatMulArgs& args, size_t token, size_t elem,
                           size_t num_elems, size_t stride, Input* inputs) {
    // ActivationRowAt serves readers and writers; nothing is written here.
    const ActivationRow row = ActivationRowAt(
        const_cast<std::byte*>(args.x + token * args.x_stride_bytes), args.n);
    const size_t end = elem + num_elems;
    for (; elem + kStepElems <= end; elem += kStepElems) {
      *inputs = Format::Prepare(
          {row.d + elem / 32, row.sum + elem / 16, row.q + elem});
      inputs += stride;
    }
    if (elem == end) return;
    const size_t rest = end - elem;
    alignas(64) float d[kStepElems / 32] = {};
    alignas(64) int16_t sum[kStepElems / 16] = {};
    alignas(64) int8_t q[kStepElems] = {};
    __builtin_memcpy(d, row.d + elem / 32, rest / 32 * sizeof(float));
    __builtin_memcpy(sum, row.sum + elem / 16, rest / 16 * sizeof(int16_t));
    __builtin_memcpy(q, row.q + elem, rest);
    *inputs = Format::Prepare({d, sum, q});
  }

  // Where the weights end, if rows follow each other without gaps; else null.
  static const std::byte* EndOf(const MatMulArgs& args) {
    const size_t row_bytes = args.n / Format::kBlockElems * Format::kBlockBytes;
    return row_bytes == args.row_bytes
               ? args.weights + args.num_rows * row_bytes
               : nullptr;
  }

  // What a group calls while its rows take a step.
  template <size_t kRows, class Prefetch>
  struct PrefetchRows {
    [[gnu::always_inline]] void operator()(size_t r) const {
      prefetch.template Row<kRows>(rows[r], offset, r);
    }
    template <size_t kShares>
    [[gnu::always_inline]] void Share(size_t r, size_t share) const {
      prefetch.template Share<kRows, kShares>(rows[r], offset, share);
    }

    const Prefetch& prefetch;
    const std::byte* const (&rows)[kRows];
    size_t offset;
  };

  // One row after the other.
  template <size_t kRows>
  struct RowByRow : RowSums<Acc, kRows> {
    using RowSums<Acc, kRows>::RowSums;

    template <class PrefetchRow>
    [[gnu::always_inline]] void Step(const std::byte* const (&rows)[kRows],
                                     size_t offset, const Input& input,
                                     const PrefetchRow& prefetch) {
#pragma clang loop unroll(full)
      for (size_t r = 0; r < kRows; ++r) {
        prefetch(r);
        this->sums[r] = Format::Step(Format::Unpack(rows[r] + offset), input,
                                     this->sums[r]);
      }
    }
  };

  template <size_t kRows, class OfFormat>
  struct GroupOf {
    using Type = RowByRow<kRows>;
  };
  template <size_t kRows, class OfFormat>
    requires requires { typename OfFormat::template Group<kRows>; }
  struct GroupOf<kRows, OfFormat> {
    using Type = typename OfFormat::template Group<kRows>;
  };

  // Adds the products of kRows rows' parts with one token's panel to acc.
  // readable_end: up to there weights of the same type follow; or null.
  template <size_t kRows, class Prefetch>
  static void MultiplyRows(const std::byte* const (&rows)[kRows],
                           const std::byte* readable_end, size_t num_elems,
                           const Input* panel, Prefetch& prefetch, Acc* acc) {
    const size_t num_whole = num_elems / kStepElems;
    const bool has_rest = num_elems % kStepElems != 0;
    // What a row's last step reads of the next row meets zeros: nothing is left
    // of it if it is finite.
    const bool reads_on =
        has_rest && AllReadable(rows, num_whole * kStepBytes, readable_end);
    const size_t num_steps = num_whole + (reads_on ? 1 : 0);
    typename GroupOf<kRows, Format>::Type group(acc);
    for (size_t s = 0; s < num_steps; ++s) {
      const size_t offset = s * kStepBytes;
      prefetch.template Begin<kRows>(offset);
      group.Step(rows, offset, panel[s],
                 PrefetchRows<kRows, Prefetch>{prefetch, rows, offset});
    }
    group.Store(acc);
    if (!has_rest || reads_on) return;
    const size_t offset = num_whole * kStepBytes;
    prefetch.template Begin<kRows>(offset);
    for (size_t r = 0; r < kRows; ++r) {
      prefetch.template Row<kRows>(rows[r], offset, r);
      acc[r] = Format::Step(UnpackRest(rows[r], num_elems), panel[num_whole],
                            acc[r]);
    }
  }

  // Whether a step can be read `offset` bytes behind each row.
  template <size_t kRows>
  static bool AllReadable(const std::byte* const (&rows)[kRows], size_t offset,
                          const std::byte* readable_end) {
    if (readable_end == nullptr) return false;
    bool all = true;
    for (const std::byte* row : rows) {
      all &= offset + kStepBytes <= static_cast<size_t>(readable_end - row);
    }
    return all;
  }

  // Adds the products of one row's part with the panel of num_tokens tokens.
  template <class Prefetch>
  static void MultiplyTokens(const std::byte* weights, size_t num_elems,
                             const Input* panel, size_t num_tokens,
                             Prefetch& prefetch, Acc* acc) {
    const auto add_step = [&](const Weights& w, const Input* inputs) {
      for (size_t t = 0; t < num_tokens; ++t) {
        acc[t] = Format::Step(w, inputs[t], acc[t]);
      }
    };
    const size_t num_steps = num_elems / kStepElems;
    for (size_t s = 0; s < num_steps; ++s) {
      const std::byte* step = weights + s * kStepBytes;
      prefetch.template Begin<1>(s * kStepBytes);
      prefetch.template Row<1>(weights, s * kStepBytes, 0);
      add_step(Format::Unpack(step), panel + s * num_tokens);
    }
    if (num_elems % kStepElems != 0) {
      prefetch.template Begin<1>(num_steps * kStepBytes);
      prefetch.template Row<1>(weights, num_steps * kStepBytes, 0);
      add_step(UnpackRest(weights, num_elems), panel + num_steps * num_tokens);
    }
  }

  // The step behind the last whole one of num_elems, filled up with zeros.
  static Weights UnpackRest(const std::byte* weights, size_t num_elems) {
    const size_t num_steps = num_elems / kStepElems;
    std::byte padded[kStepBytes] = {};
    __builtin_memcpy(
        padded, weights + num_steps * kStepBytes,
        num_elems % kStepElems / Format::kBlockElems * Format::kBlockBytes);
    return Format::Unpack(padded);
  }
};

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_INT8_DRIVER_H_
