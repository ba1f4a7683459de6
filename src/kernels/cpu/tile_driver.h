// The loops of the products with many tokens that do not depend on the
// instruction set, and the form of their input.
//
// A tile is kRows weight rows times a panel of up to kPanelElems elements. It
// is unpacked once and then meets all tokens from the first-level cache; the
// panel of their activations, up to kChunkTokens tokens, stays in the second
// one while all row tiles pass. In a tile a lane of a vector is a row: four
// consecutive quants of each row fill it, and a dot product with four quants of
// a token, the same in all lanes, needs no sum across lanes.
//
// Quants are stored as the ISA multiplies them best; see Simd::kTopQuants. The
// sum of a panel is added to what earlier panels left in the output, so a
// result depends on its row and its token alone.
//
// A Simd, one per ISA, has
//   kIsa
//   kLanes, kGroups     rows of a vector; vectors of rows in a tile
//   kTokens             tokens that are multiplied and packed together; even
//   kFewRegisters       16 vectors, which sums and a step of Dots do not share
//   kTopQuants          see tile_formats.h
//   kZeroUnit, kZeroInWords   what TileInput::zero holds
//   Bytes, Ints, Floats     vectors; of bytes also as words of 16 and 32 bits
//   the operations that tile_formats.h and TileMatMul below name
//   Dots<Format, kHalf>(quants, input, dots): integer dot products, less the
//       zero point, of the first tokens with a block or, where Format has two
//       scales, half of it
// A Format, one per weight type: tile_formats.h.
//
// The files that include this are compiled for one ISA each. A Simd lives in an
// unnamed namespace, so its instances of these templates stay in the file and
// the linker cannot give one ISA's code to another; for the same reason nothing
// here is an ordinary inline function.
#ifndef THERMOCLINE_KERNELS_CPU_TILE_DRIVER_H_
#define THERMOCLINE_KERNELS_CPU_TILE_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "kernels/activation_row.h"
#include "kernels/kernels.h"

namespace thermocline::kernels {

// 32 elements of the activations of kTokens tokens, rounded as in an
// ActivationRow.
template <size_t kTokens>
struct TileInput {
  int8_t q[8][kTokens][4];
  float d[kTokens];
  float d_sum[kTokens];  // d times the sum of the quants
  // kZeroUnit times the sum of the quants: of all and of each half. With
  // kZeroInWords in words of 16 bits: the lower one has the sum of the first
  // and second of every four quants, the upper one that of the others.
  int32_t zero[kTokens];
  int32_t half_zero[2][kTokens];
};

// BatchMatMul's functions for the input. A group is n / 32 TileInputs.
template <class Simd>
struct TilePacking {
  static constexpr size_t kTokens = Simd::kTokens;
  using Input = TileInput<kTokens>;

  static size_t GroupBytes(size_t n) {
    return (n / 32 * sizeof(Input) + 63) / 64 * 64;
  }

  static size_t ScratchBytes(size_t) { return 0; }

  static void Pack(const float* x, size_t x_stride, size_t num_tokens, size_t n,
                   std::byte* out) {
    // Blocks of 32 are rounded independently of each other, so parts of a row
    // come out as the whole would.
    constexpr size_t kPartElems = 256;
    alignas(64) std::byte rounded[kTokens][ActivationRowBytes(kPartElems)] = {};
    const auto quantize = KernelsFor(Simd::kIsa).quantize_activations;
    auto* input = reinterpret_cast<Input*>(out);
    for (size_t elem = 0; elem < n; elem += kPartElems) {
      const size_t left = n - elem;
      const size_t num_elems = left < kPartElems ? left : kPartElems;
      for (size_t t = 0; t < num_tokens; ++t) {
        quantize(x + t * x_stride + elem, num_elems, rounded[t]);
      }
      for (size_t b = 0; b < num_elems / 32; ++b) {
        for (size_t t = 0; t < kTokens; ++t) {
          PackBlock(ActivationRowAt(rounded[t], num_elems), b, t, *input);
        }
        ++input;
      }
    }
  }

 private:
  static void PackBlock(const ActivationRow& row, size_t block, size_t token,
                        Input& out) {
    const int first = row.sum[2 * block];
    const int second = row.sum[2 * block + 1];
    out.d[token] = row.d[block];
    out.d_sum[token] = row.d[block] * static_cast<float>(first + second);
    const int8_t* q = row.q + 32 * block;
    if constexpr (Simd::kZeroInWords) {
      out.zero[token] = ZeroWords(q, 32);
      out.half_zero[0][token] = ZeroWords(q, 16);
      out.half_zero[1][token] = ZeroWords(q + 16, 16);
    } else {
      out.zero[token] = Simd::kZeroUnit * (first + second);
      out.half_zero[0][token] = Simd::kZeroUnit * first;
      out.half_zero[1][token] = Simd::kZeroUnit * second;
    }
    for (size_t i = 0; i < 8; ++i) {
      __builtin_memcpy(out.q[i][token], q + 4 * i, 4);
    }
  }

  static int32_t ZeroWords(const int8_t* q, size_t count) {
    int16_t sums[2] = {};
    for (size_t i = 0; i < count; ++i) {
      sums[i / 2 % 2] =
          static_cast<int16_t>(sums[i / 2 % 2] + Simd::kZeroUnit * q[i]);
    }
    int32_t words;
    __builtin_memcpy(&words, sums, sizeof(words));
    return words;
  }
};

// 32 elements of the rows of a tile.
template <class Simd, class Format>
struct TileBlock {
  typename Simd::Bytes q[8][Format::kPlanes][Simd::kGroups];
  // Scales of the block or of each half; or the scales and what comes to each
  // weight.
  typename Simd::Floats factor[Format::kFactors][Simd::kGroups];
};

template <class Simd, class Format>
class TileMatMul {
 public:
  // A MatMulFn of BatchMatMul.
  static void Run(const MatMulArgs& args) {
    for (size_t token = 0; token < args.num_tokens; token += kChunkTokens) {
      MatMulArgs chunk = args;
      const size_t left = args.num_tokens - token;
      chunk.num_tokens = left < kChunkTokens ? left : kChunkTokens;
      chunk.x += token / kTokens * args.x_stride_bytes;
      chunk.out += token * args.out_stride;
      MultiplyChunk(chunk);
    }
  }

 private:
  using Floats = typename Simd::Floats;
  using Input = TileInput<Simd::kTokens>;
  using Block = TileBlock<Simd, Format>;

  static constexpr size_t kTokens = Simd::kTokens;
  static constexpr size_t kGroups = Simd::kGroups;
  static constexpr size_t kLanes = Simd::kLanes;
  static constexpr size_t kRows = kGroups * kLanes;
  // Tiles that meet a group of tokens one after the other. Two pass on half as
  // much between the first- and the second-level cache, if they fit the first.
  static constexpr size_t kTiles =
      Simd::kFewRegisters && Format::kPlanes == 1 ? 2 : 1;
  static constexpr size_t kPanelElems = 512;
  static constexpr size_t kPanelBlocks = kPanelElems / 32;
  static constexpr size_t kChunkTokens = 512;
  static_assert(kChunkTokens % kTokens == 0);
  // Up to here all panels of a row tile follow each other: the activations of
  // so few tokens stay in the cache as a whole, and memory is read in order.
  static constexpr size_t kTokensOfWholeRows = 64;

  static void MultiplyChunk(const MatMulArgs& args) {
    if (args.num_tokens > kTokensOfWholeRows) {
      MultiplyRows(args, 0, args.num_rows);
      return;
    }
    for (size_t row = 0; row < args.num_rows; row += kTiles * kRows) {
      const size_t end = row + kTiles * kRows;
      MultiplyRows(args, row, end < args.num_rows ? end : args.num_rows);
    }
  }

  // Row tiles from first_row on, one after the other for each panel.
  static void MultiplyRows(const MatMulArgs& args, size_t first_row,
                           size_t end_row) {
    Block tiles[kTiles][kPanelBlocks];
    for (size_t elem = 0; elem < args.n; elem += kPanelElems) {
      const size_t left = args.n - elem;
      const size_t num_blocks = (left < kPanelElems ? left : kPanelElems) / 32;
      for (size_t row = first_row; row < end_row; row += kTiles * kRows) {
        for (size_t i = 0; i < kTiles && row + i * kRows < end_row; ++i) {
          UnpackTile(args, row + i * kRows, elem, num_blocks, tiles[i]);
        }
        MultiplyTiles(args, row, elem, num_blocks, tiles);
      }
    }
  }

  // Rows past the last are copies of it, computed and thrown away.
  static void UnpackTile(const MatMulArgs& args, size_t first_row, size_t elem,
                         size_t num_blocks, Block* tile) {
    const std::byte* rows[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      const size_t row = first_row + r;
      rows[r] =
          args.weights +
          (row < args.num_rows ? row : args.num_rows - 1) * args.row_bytes +
          elem / Format::kBlockElems * Format::kBlockBytes;
    }
    uint32_t heads[kPanelBlocks][kRows];
    if constexpr (Format::kHasHeads) {
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t b = 0; b < num_blocks; ++b) {
          __builtin_memcpy(&heads[b][r], rows[r] + b * Format::kBlockBytes,
                           sizeof(heads[b][r]));
        }
      }
    }
    for (size_t b = 0; b < num_blocks; b += Format::kBlockElems / 32) {
      const size_t offset =
          b / (Format::kBlockElems / 32) * Format::kBlockBytes;
      for (size_t g = 0; g < kGroups; ++g) {
        Format::Unpack(rows + g * kLanes, offset, heads[b] + g * kLanes,
                       tile + b, g);
      }
    }
  }

  // A tile and a group of tokens that it meets.
  struct Meeting {
    const Block* tile;
    const Input* input;
    size_t next_input;  // bytes to what to prefetch; 0: nothing
    size_t num_blocks;
    bool is_first;  // of the panels
  };

  static void MultiplyTiles(const MatMulArgs& args, size_t first_row,
                            size_t elem, size_t num_blocks,
                            const Block (&tiles)[kTiles][kPanelBlocks]) {
    for (size_t token = 0; token < args.num_tokens; token += kTokens) {
      const size_t tokens_left = args.num_tokens - token;
      const size_t num_tokens = tokens_left < kTokens ? tokens_left : kTokens;
      for (size_t i = 0; i < kTiles; ++i) {
        const size_t row = first_row + i * kRows;
        if (row >= args.num_rows) break;
        const size_t rows_left = args.num_rows - row;
        const size_t num_rows = rows_left < kRows ? rows_left : kRows;
        const Meeting meeting = {
            .tile = tiles[i],
            .input = reinterpret_cast<const Input*>(
                         args.x + token / kTokens * args.x_stride_bytes) +
                     elem / 32,
            .next_input = tokens_left > kTokens && i + 1 == kTiles
                              ? args.x_stride_bytes
                              : 0,
            .num_blocks = num_blocks,
            .is_first = elem == 0};
        float* out = args.out + token * args.out_stride + row;
        if (num_rows == kRows && num_tokens == kTokens) {
          MultiplyGroup<kTokens>(meeting, out, args.out_stride);
        } else {
          MultiplyPart(meeting, num_rows, num_tokens, out, args.out_stride);
        }
      }
    }
  }

  // Fewer rows or tokens than a tile or a group has.
  static void MultiplyPart(const Meeting& meeting, size_t num_rows,
                           size_t num_tokens, float* out, size_t out_stride) {
    float whole[kTokens * kRows] = {};
    for (size_t t = 0; t < num_tokens && !meeting.is_first; ++t) {
      __builtin_memcpy(whole + t * kRows, out + t * out_stride,
                       num_rows * sizeof(float));
    }
    MultiplyFirst<2>(meeting, num_tokens, whole);
    for (size_t t = 0; t < num_tokens; ++t) {
      __builtin_memcpy(out + t * out_stride, whole + t * kRows,
                       num_rows * sizeof(float));
    }
  }

  // As MultiplyGroup for kCount tokens, or as many more as there must be.
  template <size_t kCount>
  static void MultiplyFirst(const Meeting& meeting, size_t num_tokens,
                            float* whole) {
    if constexpr (kCount < kTokens) {
      if (num_tokens > kCount) {
        MultiplyFirst<kCount + 2>(meeting, num_tokens, whole);
        return;
      }
    }
    MultiplyGroup<kCount>(meeting, whole, kRows);
  }

  // kRows rows times the first kCount tokens of a group: written to `out` for
  // the first panel, added to it for others.
  template <size_t kCount>
  static void MultiplyGroup(const Meeting& meeting, float* out,
                            size_t out_stride) {
    const auto [tile, input, next_input, num_blocks, is_first] = meeting;
    Floats acc[kCount][kGroups];
    for (size_t t = 0; t < kCount; ++t) {
      for (size_t r = 0; r < kRows; r += 16) {
        __builtin_prefetch(out + t * out_stride + r, 1);
      }
      for (size_t g = 0; g < kGroups; ++g) acc[t][g] = Simd::Zero();
    }
    for (size_t b = 0; b < num_blocks; ++b) {
      // Groups lie apart, so nothing but this reads ahead.
      if (Simd::kFewRegisters && next_input != 0) {
        const auto* next =
            reinterpret_cast<const std::byte*>(input + b) + next_input;
        for (size_t i = 0; i < sizeof(Input); i += 64) {
          __builtin_prefetch(next + i);
        }
      }
      AddBlock(tile[b], input[b], acc);
      if constexpr (Simd::kFewRegisters) {
        // The sums lie in memory meanwhile, at aligned addresses: the compiler
        // would spill to others.
        asm volatile("" : "+m"(acc));
      }
    }
    for (size_t t = 0; t < kCount; ++t) {
      for (size_t g = 0; g < kGroups; ++g) {
        float* p = out + t * out_stride + g * kLanes;
        if (!is_first) acc[t][g] = Simd::Add(Simd::Load(p), acc[t][g]);
        Simd::Store(acc[t][g], p);
      }
    }
  }

  template <size_t kCount>
  [[gnu::always_inline]] static inline void AddBlock(
      const Block& w, const Input& x, Floats (&acc)[kCount][kGroups]) {
    typename Simd::Ints dots[kCount][kGroups];
    Simd::template Dots<Format, 0>(w.q, x, dots);
    if constexpr (Format::kHalves == 2) {
      typename Simd::Ints second[kCount][kGroups];
      Simd::template Dots<Format, 1>(w.q, x, second);
      for (size_t t = 0; t < kCount; ++t) {
        for (size_t g = 0; g < kGroups; ++g) {
          const Floats scaled = Simd::MulAdd(
              Simd::ToFloats(second[t][g]), w.factor[1][g],
              Simd::Mul(Simd::ToFloats(dots[t][g]), w.factor[0][g]));
          acc[t][g] = Simd::MulAdd(scaled, Simd::Splat(x.d[t]), acc[t][g]);
        }
      }
    } else {
      Floats factor[Format::kFactors][kGroups];
      __builtin_memcpy(factor, w.factor, sizeof(factor));
      for (size_t t = 0; t < kCount; ++t) {
        const Floats d = Simd::Splat(x.d[t]);
        const Floats d_sum = Simd::Splat(x.d_sum[t]);
        for (size_t g = 0; g < kGroups; ++g) {
          Floats sum = Simd::MulAdd(Simd::ToFloats(dots[t][g]),
                                    Simd::Mul(factor[0][g], d), acc[t][g]);
          if constexpr (Format::kHasMin) {
            sum = Simd::MulAdd(factor[1][g], d_sum, sum);
          }
          acc[t][g] = sum;
        }
      }
    }
  }
};

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_TILE_DRIVER_H_
