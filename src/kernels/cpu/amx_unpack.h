// Unpacks weights to bf16, for amx_matmul.cc.
//
// Each weight in blocks is computed in f32 as in the codec and rounded once, to
// nearest even. 32 elements, in their order, are a line of 64 bytes: one row of
// a tile. Where 32 elements share their scales and have 16 or 32 levels, the
// levels are rounded, not the elements, and a permutation looks them up. F16
// becomes two lines, the upper halves and what is left of them, exactly.
//
// A row is unpacked eight lines at a time, two per call: amx_matmul.cc does
// other work in between. An Unpacker has
//   kBlockElems, kBlockBytes
//   kLinesOfStep   of 32 elements: 1, or 2 for both halves
//   kInputHalves   of the tokens that they meet: 1, or 2
//   Begin(blocks, num_lines, scales)   kept for the calls that follow
//   Pair(blocks, num_lines, scales, pair, out)
// for blocks of num_lines lines, at most kMaxLines, unaligned. Pair writes line
// 2 * pair to `out`, 64-byte aligned, and the next to out + kLineStride; if
// there is none, it writes anything there.
#ifndef THERMOCLINE_KERNELS_CPU_AMX_UNPACK_H_
#define THERMOCLINE_KERNELS_CPU_AMX_UNPACK_H_

// Empty unless compiled for it, so that it compiles alone anywhere.
#if defined(__AVX512BF16__)

#include "kernels/cpu/amx_halves.h"
#include "kernels/cpu/int8_avx512_k.h"

// Unnamed in a header for the reason that int8_avx512.h gives.
namespace thermocline::kernels {
namespace {

inline constexpr size_t kStepElems = 32;  // of a line
inline constexpr size_t kMaxLines = 8;    // a block of 256
inline constexpr size_t kRowBlock = 32;   // two tiles
inline constexpr size_t kLineStride = 64 * kRowBlock;

inline size_t Min(size_t a, size_t b) { return a < b ? a : b; }

// first, first + 1, .. first + 15.
inline __m512 SixteenFrom(float first) {
  return _mm512_add_ps(
      _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
      _mm512_set1_ps(first));
}

inline void StoreLine(std::byte* out, __m512i line) {
  _mm512_store_si512(out, line);
}

// Of weights in blocks, which are rounded, and so are tokens.
struct RoundedOnce {
  static constexpr size_t kLinesOfStep = 1;
  static constexpr size_t kInputHalves = 1;
};

// 32-element blocks; `Type` makes a line of one and the two half-precision
// numbers that it begins with.
template <class Type>
struct Unpack32 : RoundedOnce {
  using Block = typename Type::Block;
  static constexpr size_t kBlockElems = kBlock;
  static constexpr size_t kBlockBytes = sizeof(Block);

  static void Begin(const std::byte* blocks, size_t num_lines, float* scales) {
    if (num_lines == kMaxLines) {
      _mm512_store_ps(scales, Block32<Block>::Heads(blocks));
      return;
    }
    for (size_t i = 0; i < num_lines; ++i) {
      const uint32_t head = LoadU32(blocks + i * kBlockBytes);
      scales[2 * i] = _cvtsh_ss(static_cast<uint16_t>(head));
      scales[2 * i + 1] = _cvtsh_ss(static_cast<uint16_t>(head >> 16));
    }
  }

  static void Pair(const std::byte* blocks, size_t num_lines,
                   const float* scales, size_t pair, std::byte* out) {
    const size_t i = 2 * pair;
    const size_t j = i + 1 < num_lines ? i + 1 : i;
    StoreLine(out, Line(blocks, scales, i));
    StoreLine(out + kLineStride, Line(blocks, scales, j));
  }

  static __m512i Line(const std::byte* blocks, const float* scales, size_t i) {
    return Type::Line(blocks + i * kBlockBytes, _mm512_set1_ps(scales[2 * i]),
                      _mm512_set1_ps(scales[2 * i + 1]));
  }
};

// 16 bytes as 32 words, the second 16 shifted right by four. Other bits than
// the low nibbles are not cleared.
inline __m512i SpreadNibbles(const std::byte* qs) {
  const __m512i twice =
      _mm512_cvtepu8_epi16(_mm256_broadcastsi128_si256(Load128(qs)));
  return _mm512_srlv_epi16(twice, _mm512_inserti64x4(_mm512_setzero_si512(),
                                                     _mm256_set1_epi16(4), 1));
}

// Looks up 32 words in 16 levels; only their low nibbles count.
inline __m512i Lookup16(__m512i words, __m512 levels) {
  return _mm512_permutexvar_epi16(words, ToBf16(levels, levels));
}

// Looks up 32 words in 32 levels: their low nibbles, and a fifth bit.
inline __m512i Lookup32(__m512i words, __mmask32 fifth, __m512 low,
                        __m512 high) {
  const __m512i nibbles = _mm512_and_si512(words, _mm512_set1_epi16(0x0F));
  return _mm512_permutexvar_epi16(
      _mm512_mask_add_epi16(nibbles, fifth, nibbles, _mm512_set1_epi16(16)),
      ToBf16(low, high));
}

struct LinesQ4_0 {
  using Block = BlockQ4_0;
  static __m512i Line(const std::byte* block, __m512 d, __m512 /*unused*/) {
    return Lookup16(SpreadNibbles(block + offsetof(Block, qs)),
                    _mm512_mul_ps(d, SixteenFrom(-8)));
  }
};

struct LinesQ4_1 {
  using Block = BlockQ4_1;
  static __m512i Line(const std::byte* block, __m512 d, __m512 m) {
    return Lookup16(SpreadNibbles(block + offsetof(Block, qs)),
                    _mm512_fmadd_ps(d, SixteenFrom(0), m));
  }
};

struct LinesQ5_0 {
  using Block = BlockQ5_0;
  static __m512i Line(const std::byte* block, __m512 d, __m512 /*unused*/) {
    return Lookup32(SpreadNibbles(block + offsetof(Block, qs)),
                    LoadU32(block + offsetof(Block, qh)),
                    _mm512_mul_ps(d, SixteenFrom(-16)),
                    _mm512_mul_ps(d, SixteenFrom(0)));
  }
};

struct LinesQ5_1 {
  using Block = BlockQ5_1;
  static __m512i Line(const std::byte* block, __m512 d, __m512 m) {
    return Lookup32(SpreadNibbles(block + offsetof(Block, qs)),
                    LoadU32(block + offsetof(Block, qh)),
                    _mm512_fmadd_ps(d, SixteenFrom(0), m),
                    _mm512_fmadd_ps(d, SixteenFrom(16), m));
  }
};

// 16 signed bytes.
inline __m512 ToFloats(__m128i quants) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(quants));
}

struct LinesQ8_0 {
  using Block = BlockQ8_0;
  static __m512i Line(const std::byte* block, __m512 d, __m512 /*unused*/) {
    const std::byte* qs = block + offsetof(Block, qs);
    return ToBf16(_mm512_mul_ps(d, ToFloats(Load128(qs))),
                  _mm512_mul_ps(d, ToFloats(Load128(qs + 16))));
  }
};

// 32 bytes as words.
inline __m512i LoadWords(const std::byte* p) {
  return _mm512_cvtepu8_epi16(Load256(p));
}

// Q4_K and Q5_K. `scales` of each sub-block, then its minimum.
template <class Block>
struct SubBlocks : Block256<Block> {
  static void Begin(const std::byte* block, size_t /*num_lines*/,
                    float* scales) {
    _mm512_store_ps(scales, UnpackScales(block));
  }
};

struct UnpackQ4_K : RoundedOnce, SubBlocks<BlockQ4_K> {
  static void Pair(const std::byte* block, size_t /*num_lines*/,
                   const float* scales, size_t pair, std::byte* out) {
    const __m512i words =
        LoadWords(block + offsetof(BlockQ4_K, qs) + 32 * pair);
    StoreLine(out, Lookup16(words, Levels(scales + 4 * pair)));
    StoreLine(out + kLineStride, Lookup16(_mm512_srli_epi16(words, 4),
                                          Levels(scales + 4 * pair + 2)));
  }

  static __m512 Levels(const float* scale) {
    return _mm512_fmsub_ps(_mm512_set1_ps(scale[0]), SixteenFrom(0),
                           _mm512_set1_ps(scale[1]));
  }
};

struct UnpackQ5_K : RoundedOnce, SubBlocks<BlockQ5_K> {
  static void Pair(const std::byte* block, size_t /*num_lines*/,
                   const float* scales, size_t pair, std::byte* out) {
    const __m512i words =
        LoadWords(block + offsetof(BlockQ5_K, qs) + 32 * pair);
    const __m512i qh = LoadWords(block + offsetof(BlockQ5_K, qh));
    const __m512i bit =
        _mm512_set1_epi16(static_cast<int16_t>(1 << (2 * pair)));
    StoreLine(out,
              Line(words, _mm512_test_epi16_mask(qh, bit), scales + 4 * pair));
    StoreLine(out + kLineStride,
              Line(_mm512_srli_epi16(words, 4),
                   _mm512_test_epi16_mask(qh, _mm512_add_epi16(bit, bit)),
                   scales + 4 * pair + 2));
  }

  static __m512i Line(__m512i words, __mmask32 fifth, const float* scale) {
    const __m512 d = _mm512_set1_ps(scale[0]);
    const __m512 m = _mm512_set1_ps(scale[1]);
    return Lookup32(words, fifth, _mm512_fmsub_ps(d, SixteenFrom(0), m),
                    _mm512_fmsub_ps(d, SixteenFrom(16), m));
  }
};

struct UnpackQ6_K : RoundedOnce, Block256<BlockQ6_K> {
  static void Begin(const std::byte* block, size_t /*num_lines*/,
                    float* scales) {
    uint16_t d;
    __builtin_memcpy(&d, block + offsetof(BlockQ6_K, d), sizeof(d));
    const std::byte* in = block + offsetof(BlockQ6_K, scales);
    _mm512_store_ps(scales, _mm512_mul_ps(ToFloats(Load128(in)),
                                          _mm512_set1_ps(_cvtsh_ss(d))));
  }

  // Groups 0 and 1 of a half are the low nibbles of 64 bytes, 2 and 3 the high
  // ones.
  static void Pair(const std::byte* block, size_t /*num_lines*/,
                   const float* scales, size_t pair, std::byte* out) {
    const size_t half = pair / 2;
    const int shift = static_cast<int>(pair % 2 * 4);
    const __m128i count = _mm_cvtsi32_si128(shift);
    const __m512i low = _mm512_srl_epi16(
        Load512(block + offsetof(BlockQ6_K, ql) + 64 * half), count);
    const __m256i bits = _mm256_srl_epi16(
        Load256(block + offsetof(BlockQ6_K, qh) + 32 * half), count);
    const __m512i high =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_slli_epi16(bits, 4)),
                           _mm256_slli_epi16(bits, 2), 1);
    constexpr int kAOrBAndC = 0xF8;
    const __m512i quants = _mm512_sub_epi8(
        _mm512_ternarylogic_epi64(LowNibbles(low), high, _mm512_set1_epi8(0x30),
                                  kAOrBAndC),
        _mm512_set1_epi8(32));
    StoreLine(out, Line(_mm512_castsi512_si256(quants), scales + 4 * pair));
    StoreLine(out + kLineStride, Line(_mm512_extracti64x4_epi64(quants, 1),
                                      scales + 4 * pair + 2));
  }

  static __m512i Line(__m256i quants, const float* scale) {
    return ToBf16(_mm512_mul_ps(_mm512_set1_ps(scale[0]),
                                ToFloats(_mm256_castsi256_si128(quants))),
                  _mm512_mul_ps(_mm512_set1_ps(scale[1]),
                                ToFloats(_mm256_extracti128_si256(quants, 1))));
  }
};

// Numbers of 16 bits, tokens in both halves.
struct Unpack16 {
  static constexpr size_t kInputHalves = 2;
  static constexpr size_t kBlockElems = kStepElems;
  static constexpr size_t kBlockBytes = 2 * kStepElems;

  static void Begin(const std::byte*, size_t, float*) {}
};

struct UnpackF16 : Unpack16 {
  static constexpr size_t kLinesOfStep = 2;

  static void Pair(const std::byte* blocks, size_t /*num_lines*/,
                   const float* /*scales*/, size_t pair, std::byte* out) {
    const std::byte* at = blocks + pair * kBlockBytes;
    const Halves halves =
        SplitInOrder(LoadF16(at), LoadF16(at + kBlockBytes / 2));
    StoreLine(out, halves.upper);
    StoreLine(out + kLineStride, halves.lower);
  }
};

struct UnpackBf16 : Unpack16 {
  static constexpr size_t kLinesOfStep = 1;

  static void Pair(const std::byte* blocks, size_t num_lines,
                   const float* /*scales*/, size_t pair, std::byte* out) {
    const size_t i = 2 * pair;
    const size_t j = i + 1 < num_lines ? i + 1 : i;
    StoreLine(out, Load512(blocks + i * kBlockBytes));
    StoreLine(out + kLineStride, Load512(blocks + j * kBlockBytes));
  }
};

// Rows [row, row + kRowBlock) by the panel that begins at `step`: what is
// unpacked and multiplied at a time.
struct Piece {
  size_t row;
  size_t step;
};

// Unpacks a piece bit by bit.
template <class Unpacker>
class PieceUnpacker {
 public:
  PieceUnpacker() = default;
  PieceUnpacker(const MatMulArgs& args, Piece piece, std::byte* panel)
      : row_bytes_(args.row_bytes), panel_(panel), out_(panel) {
    if (piece.row >= args.num_rows) return;
    blocks_ =
        args.weights + piece.row * args.row_bytes +
        piece.step * kStepElems / Unpacker::kBlockElems * Unpacker::kBlockBytes;
    num_lines_ = Min(
        (args.n / kStepElems - piece.step) * Unpacker::kLinesOfStep, kMaxLines);
    pairs_per_row_ = (num_lines_ + 1) / 2;
    pairs_left_ = pairs_per_row_ * Min(args.num_rows - piece.row, kRowBlock);
  }

  const std::byte* panel() const { return panel_; }
  size_t pairs_left() const { return pairs_left_; }

  // Unpacks two lines. Requires pairs_left() > 0.
  [[gnu::always_inline]] inline void UnpackPair() {
    if (pair_ == 0) Unpacker::Begin(blocks_, num_lines_, scales_);
    Unpacker::Pair(blocks_, num_lines_, scales_, pair_,
                   out_ + pair_ * (2 * kLineStride));
    --pairs_left_;
    if (++pair_ == pairs_per_row_) {
      pair_ = 0;
      blocks_ += row_bytes_;
      out_ += 64;
    }
  }

 private:
  alignas(64) float scales_[2 * kMaxLines];
  size_t row_bytes_ = 0;
  std::byte* panel_ = nullptr;
  std::byte* out_ = nullptr;           // its line for the row
  const std::byte* blocks_ = nullptr;  // the row's part of the panel
  size_t num_lines_ = 0;
  size_t pairs_per_row_ = 0;
  size_t pairs_left_ = 0;
  size_t pair_ = 0;
};

}  // namespace
}  // namespace thermocline::kernels

#endif  // __AVX512BF16__
#endif  // THERMOCLINE_KERNELS_CPU_AMX_UNPACK_H_
