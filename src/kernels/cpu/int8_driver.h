// The loops that every int8 matrix product shares: rows, tokens, and the end
// of a row. What a step computes is a Format, written per ISA and weight type.
//
// A step is kStepBlocks blocks of one weight row times the same elements of an
// activation row. Activations are prepared in the order that the format's
// unpacking leaves weights in, once for many rows, a panel of steps at a time.
// Each (row, token) has its own accumulator, which sees the steps in order, so
// blocking changes nothing in the result. A last step that is not whole runs
// on copies padded with zeros.
//
// A Format has
//   kBlockBytes, kBlockElems, kStepBlocks
//   Weights, Input, Acc                 made of vector registers
//   Weights Unpack(const std::byte*)    kStepBlocks blocks, unaligned
//   Input Prepare(const StepInput&)
//   Acc Zero()
//   Acc Step(const Weights&, const Input&, Acc)   acc + the step's product
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
#include "kernels/kernels.h"

namespace thermocline::kernels {

// The part of an activation row that one step reads. Only q is aligned.
struct StepInput {
  const float* d;
  const int16_t* sum;
  const int8_t* q;
};

template <class Format>
class Int8MatMul {
 public:
  // A MatMulFn.
  static void Run(const MatMulArgs& args) {
    for (size_t row = 0; row < args.num_rows; row += kRowBlock) {
      const size_t left = args.num_rows - row;
      const size_t num_rows = left < kRowBlock ? left : kRowBlock;
      size_t token = 0;
      for (; token + kTokenTile <= args.num_tokens; token += kTokenTile) {
        MultiplyBlock<kTokenTile>(args, row, num_rows, token);
      }
      for (; token < args.num_tokens; ++token) {
        MultiplyBlock<1>(args, row, num_rows, token);
      }
    }
  }

 private:
  using Weights = typename Format::Weights;
  using Input = typename Format::Input;
  using Acc = typename Format::Acc;

  static constexpr size_t kStepElems =
      size_t{Format::kStepBlocks} * Format::kBlockElems;
  static constexpr size_t kStepBytes =
      size_t{Format::kStepBlocks} * Format::kBlockBytes;

  // Rows that share prepared activations, and whose weights stay in the cache
  // while all tokens meet them.
  static constexpr size_t kRowBlock = 32;
  // Tokens that share the unpacking of a step.
  static constexpr size_t kTokenTile = 4;
  // Prepared activations; small enough to stay in the first-level cache.
  static constexpr size_t kPanelBytes = 24 * 1024;

  // How far ahead of its use a weight is asked for: from memory this read 0.8
  // of what plain loads did, against 0.5 without (one core, Q4_0, VNNI).
  static constexpr size_t kPrefetchBytes = 4096;

  template <size_t kTokens>
  static constexpr size_t kPanelSteps = kPanelBytes / (sizeof(Input) * kTokens);

  // kTokens tokens times up to kRowBlock rows.
  template <size_t kTokens>
  static void MultiplyBlock(const MatMulArgs& args, size_t first_row,
                            size_t num_rows, size_t first_token) {
    Input panel[kPanelSteps<kTokens>][kTokens];
    Acc acc[kRowBlock][kTokens];
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t t = 0; t < kTokens; ++t) acc[r][t] = Format::Zero();
    }
    const std::byte* weights = args.weights + first_row * args.row_bytes;
    for (size_t elem = 0; elem < args.n;) {
      const size_t left = args.n - elem;
      const size_t panel_elems = kPanelSteps<kTokens> * kStepElems;
      const size_t num_elems = left < panel_elems ? left : panel_elems;
      for (size_t t = 0; t < kTokens; ++t) {
        PreparePanel<kTokens>(args, first_token + t, elem, num_elems,
                              &panel[0][t]);
      }
      const std::byte* part =
          weights + elem / Format::kBlockElems * Format::kBlockBytes;
      for (size_t r = 0; r < num_rows; ++r) {
        MultiplyRow(part + r * args.row_bytes, num_elems, panel, acc[r]);
      }
      elem += num_elems;
    }
    for (size_t t = 0; t < kTokens; ++t) {
      float* out = args.out + (first_token + t) * args.out_stride + first_row;
      for (size_t r = 0; r < num_rows; ++r) out[r] = Format::Reduce(acc[r][t]);
    }
  }

  // Prepares elements [elem, elem + num_elems) of a token; step s goes to
  // inputs[s * kStride].
  template <size_t kStride>
  static void PreparePanel(const MatMulArgs& args, size_t token, size_t elem,
                           size_t num_elems, Input* inputs) {
    // ActivationRowAt serves readers and writers; nothing is written here.
    const ActivationRow row = ActivationRowAt(
        const_cast<std::byte*>(args.x + token * args.x_stride_bytes), args.n);
    const size_t end = elem + num_elems;
    for (; elem + kStepElems <= end; elem += kStepElems) {
      *inputs = Format::Prepare(
          {row.d + elem / 32, row.sum + elem / 16, row.q + elem});
      inputs += kStride;
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

  // Adds the products of one row's part with the panel to acc[kTokens].
  template <size_t kTokens>
  static void MultiplyRow(const std::byte* weights, size_t num_elems,
                          const Input (*panel)[kTokens], Acc* acc) {
    Acc sums[kTokens];
    for (size_t t = 0; t < kTokens; ++t) sums[t] = acc[t];
    const size_t num_steps = num_elems / kStepElems;
    for (size_t s = 0; s < num_steps; ++s) {
      const std::byte* step = weights + s * kStepBytes;
      // The address may be past the weights, where no pointer may point.
      const auto ahead = reinterpret_cast<uintptr_t>(step) + kPrefetchBytes;
      for (size_t i = 0; i < kStepBytes; i += 64) {
        __builtin_prefetch(reinterpret_cast<const void*>(ahead + i));
      }
      AddStep(step, panel[s], sums);
    }
    const size_t rest = num_elems % kStepElems;
    if (rest != 0) {
      std::byte padded[kStepBytes] = {};
      __builtin_memcpy(padded, weights + num_steps * kStepBytes,
                       rest / Format::kBlockElems * Format::kBlockBytes);
      AddStep(padded, panel[num_steps], sums);
    }
    for (size_t t = 0; t < kTokens; ++t) acc[t] = sums[t];
  }

  template <size_t kTokens>
  [[gnu::always_inline]] static inline void AddStep(
      const std::byte* weights, const Input (&inputs)[kTokens],
      Acc (&sums)[kTokens]) {
    const Weights w = Format::Unpack(weights);
    for (size_t t = 0; t < kTokens; ++t) {
      sums[t] = Format::Step(w, inputs[t], sums[t]);
    }
  }
};

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_INT8_DRIVER_H_
