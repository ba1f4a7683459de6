// Matrix products in AMX tiles of bf16.
//
// A tile is 16 lines of 64 bytes. One instruction adds to a tile of 16 rows by
// 16 tokens of f32 the products of 32 elements: 16 rows of weights times a tile
// whose line i has elements 2i and 2i + 1 of each of 16 tokens. The eight tiles
// hold 32 rows by 32 tokens of sums and a step of operands for them, so each
// operand that is loaded meets two others.
//
// Weights are unpacked to bf16, 32 rows by a panel of 8 lines at a time,
// which stay in the first-level cache while all tokens of the call meet them;
// the panel of the tokens stays in the second-level cache while row block after
// row block passes over it. Between panels sums wait in scratch memory. (With
// panels twice as long, sums travel half as often, but the weights no longer
// stay in the first-level cache beside the tokens: no gain.)
//
// While a piece is multiplied, the next is unpacked and the last sums are
// written, a little after each step: the tiles and the vector units are
// different parts of the core and work at the same time, if the instructions
// for both are within the few hundred that the core looks ahead.
//
// F16 is the sum of two halves in bf16, and so are the tokens that it and bf16
// meet: of the products of halves all but that of the lower ones is computed.
// That rounds inputs by 2^-18, where one bf16 each would by 2^-9.
//
// Not in tiles of int8: their scales every 32 elements would take sums out of
// the tiles, which in bf16 stay there over all of a panel.
//
// The sums of an element are in the order of steps, whatever else is computed.
#include "kernels/cpu/amx_matmul.h"

#include "kernels/cpu/amx_halves.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/amx_unpack.h"

namespace thermocline::kernels {
namespace {

constexpr size_t kTokenBlock = 2 * kTile;
constexpr size_t kTokenStepBytes = 2 * kTileBytes;
constexpr size_t kTokenChunk = 512;  // tokens that meet weights unpacked once
// Rows whose sums wait in scratch memory if the input does not fit into the
// second-level cache: the more, the more seldom it comes from beyond.
constexpr size_t kRowChunk = 256;
constexpr size_t kCachedInputBytes = 1 << 20;

constexpr size_t kPanelBytes = kMaxLines * kLineStride;
constexpr size_t kSumsBytes = 4 * kTileBytes;  // of 32 rows by 32 tokens
constexpr size_t kScratchBytes =
    2 * kPanelBytes + kSumsBytes +
    kRowChunk / kRowBlock * (kTokenChunk / kTokenBlock) * kSumsBytes;

// An odd number of panels: those of many groups, used together, would share few
// sets of the caches if they were a power of two apart.
template <size_t kHalves>
size_t GroupBytes(size_t n) {
  constexpr size_t kPanel = kMaxLines * kTokenStepBytes;
  const size_t bytes = n / kStepElems * kHalves * kTokenStepBytes;
  return bytes < kPanel ? bytes : ((bytes + kPanel - 1) / kPanel | 1) * kPanel;
}

size_t ScratchBytes(size_t /*n*/) { return kScratchBytes; }

// One line or two of 32 elements.
template <size_t kHalves>
void Round(const float* from, __m512i lines[kHalves][kTile], size_t t) {
  const __m512 low = _mm512_loadu_ps(from);
  const __m512 high = _mm512_loadu_ps(from + 16);
  if constexpr (kHalves == 1) {
    lines[0][t] = ToBf16(low, high);
  } else {
    const Halves halves = SplitInOrder(low, high);
    lines[0][t] = halves.upper;
    lines[1][t] = halves.lower;
  }
}

// Of each step the tiles of all tokens, then those of their lower halves.
template <size_t kHalves>
void Pack(const float* x, size_t x_stride, size_t num_tokens, size_t n,
          std::byte* out) {
  for (size_t elem = 0; elem < n; elem += kStepElems) {
    for (size_t first = 0; first < kTokenBlock; first += kTile) {
      __m512i lines[kHalves][kTile];
      for (size_t t = 0; t < kTile; ++t) {
        for (auto& half : lines) half[t] = _mm512_setzero_si512();
        if (first + t < num_tokens) {
          Round<kHalves>(x + (first + t) * x_stride + elem, lines, t);
        }
      }
      for (size_t half = 0; half < kHalves; ++half) {
        Transpose(lines[half]);
        std::byte* tile =
            out + half * kTokenStepBytes + first / kTile * kTileBytes;
        for (size_t i = 0; i < kTile; ++i) {
          StoreLine(tile + i * 64, lines[half][i]);
        }
      }
    }
    out += kHalves * kTokenStepBytes;
  }
}

// Brings sums of 32 rows by 32 tokens from tiles to the output, bit by bit.
class SumsWriter {
 public:
  SumsWriter() = default;
  SumsWriter(const MatMulArgs& args, const std::byte* sums, size_t row,
             size_t token)
      : sums_(sums),
        out_(args.out + token * args.out_stride + row),
        out_stride_(args.out_stride),
        num_rows_(args.num_rows - row),
        num_tokens_(args.num_tokens - token),
        part_(0) {}

  bool is_done() const { return part_ == kParts; }

  // Writes 16 rows of four tokens.
  void WritePart() {
    const size_t row = part_ / 8 * kTile;
    const size_t token = part_ % 8 * 4;
    const std::byte* from = sums_ + part_ / 4 * kTileBytes + part_ % 4 * 16;
    ++part_;
    PrefetchFor(part_ + kPrefetchAhead);
    if (row >= num_rows_ || token >= num_tokens_) return;
    // Lane l of v[i]: row 4l + i of four tokens.
    __m512 v[4];
    for (size_t i = 0; i < 4; ++i) {
      const auto load = [&](size_t r) {
        return _mm512_broadcast_f32x4(
            _mm_load_ps(reinterpret_cast<const float*>(from + r * 64)));
      };
      v[i] = _mm512_mask_blend_ps(0x00F0, load(i), load(i + 4));
      v[i] = _mm512_mask_blend_ps(0x0F00, v[i], load(i + 8));
      v[i] = _mm512_mask_blend_ps(0xF000, v[i], load(i + 12));
    }
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(v[0], v[1]));
    const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(v[0], v[1]));
    const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(v[2], v[3]));
    const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(v[2], v[3]));
    const __m512d tokens[4] = {
        _mm512_unpacklo_pd(low01, low23), _mm512_unpackhi_pd(low01, low23),
        _mm512_unpacklo_pd(high01, high23), _mm512_unpackhi_pd(high01, high23)};
    const auto mask =
        static_cast<__mmask16>((1u << Min(num_rows_ - row, kTile)) - 1);
    float* out = out_ + token * out_stride_ + row;
    for (size_t t = 0; t < Min(num_tokens_ - token, 4); ++t) {
      _mm512_mask_storeu_ps(out + t * out_stride_, mask,
                            _mm512_castpd_ps(tokens[t]));
    }
  }

 private:
  static constexpr size_t kParts = 16;
  // The lines of a part come from beyond the second-level cache, and are too
  // far apart to be guessed. Prefetching them first gave 5% (Q4_0, 512
  // tokens).
  static constexpr size_t kPrefetchAhead = 3;

  void PrefetchFor(size_t part) {
    const size_t row = part / 8 * kTile;
    const size_t token = part % 8 * 4;
    if (part >= kParts || row >= num_rows_ || token + 4 > num_tokens_) return;
    const float* out = out_ + token * out_stride_ + row;
    for (size_t t = 0; t < 4; ++t) {
      __builtin_prefetch(out + t * out_stride_, 1);
    }
  }

  const std::byte* sums_ = nullptr;
  float* out_ = nullptr;
  size_t out_stride_ = 0;
  size_t num_rows_ = 0;
  size_t num_tokens_ = 0;
  size_t part_ = kParts;
};

template <class Unpacker>
class AmxMatMul {
 public:
  // BatchMatMul::multiply
  static void Run(const MatMulArgs& args) {
    const TileConfig config;
    _tile_loadconfig(&config);
    MatMulArgs part = args;
    for (size_t token = 0; token < args.num_tokens; token += kTokenChunk) {
      part.x = args.x + token / kTokenBlock * args.x_stride_bytes;
      part.num_tokens = Min(args.num_tokens - token, kTokenChunk);
      part.out = args.out + token * args.out_stride;
      AmxMatMul(part).MultiplyAll();
    }
    _tile_release();
  }

 private:
  static constexpr size_t kPanelSteps = kMaxLines / Unpacker::kLinesOfStep;
  // Of a step's halves.
  static constexpr size_t kProducts =
      Unpacker::kLinesOfStep + Unpacker::kInputHalves - 1;

  explicit AmxMatMul(const MatMulArgs& args)
      : args_(args),
        num_steps_(args.n / kStepElems),
        num_token_blocks_((args.num_tokens + kTokenBlock - 1) / kTokenBlock),
        row_chunk_(num_token_blocks_ * args.x_stride_bytes <= kCachedInputBytes
                       ? kRowBlock
                       : kRowChunk),
        sums_stay_(num_token_blocks_ == 1 && row_chunk_ == kRowBlock) {}

  // The row blocks of a panel, the panels of a chunk of rows, the chunks.
  Piece Next(Piece piece) const {
    const size_t chunk = piece.row / row_chunk_ * row_chunk_;
    const size_t end = Min(chunk + row_chunk_, args_.num_rows);
    if (piece.row + kRowBlock < end) {
      return {piece.row + kRowBlock, piece.step};
    }
    if (piece.step + kPanelSteps < num_steps_) {
      return {chunk, piece.step + kPanelSteps};
    }
    return {end, 0};
  }

  void MultiplyAll() {
    std::byte* panels[2] = {args_.scratch, args_.scratch + kPanelBytes};
    Piece piece = {0, 0};
    unpacker_ = PieceUnpacker<Unpacker>(args_, piece, panels[0]);
    for (size_t i = 1; piece.row < args_.num_rows; ++i) {
      while (unpacker_.pairs_left() > 0) unpacker_.UnpackPair();
      panel_ = unpacker_.panel();
      const Piece next = Next(piece);
      unpacker_ = PieceUnpacker<Unpacker>(args_, next, panels[i % 2]);
      MultiplyPiece(piece);
      piece = next;
    }
    while (!writer_.is_done()) writer_.WritePart();
  }

  void MultiplyPiece(Piece piece) {
    const bool has_two = args_.num_rows - piece.row > kTile;
    const size_t num_steps = Min(num_steps_ - piece.step, kPanelSteps);
    pair_rate_ = (unpacker_.pairs_left() << 16) /
                     (num_token_blocks_ * num_steps * kProducts) +
                 1;
    for (size_t block = 0; block < num_token_blocks_; ++block) {
      const bool is_wide = args_.num_tokens - block * kTokenBlock > kTile;
      if (has_two) {
        is_wide ? MultiplyBlock<true, true>(piece, block, num_steps)
                : MultiplyBlock<true, false>(piece, block, num_steps);
      } else {
        is_wide ? MultiplyBlock<false, true>(piece, block, num_steps)
                : MultiplyBlock<false, false>(piece, block, num_steps);
      }
    }
  }

  // What is done between the steps of the tiles.
  void WorkAside() {
    if (!writer_.is_done()) writer_.WritePart();
    for (pair_clock_ += pair_rate_;
         pair_clock_ >= 1 << 16 && unpacker_.pairs_left() > 0;
         pair_clock_ -= 1 << 16) {
      unpacker_.UnpackPair();
    }
  }

  // Tiles 0 to 3 are the sums: of rows 0-15 and tokens 0-15, tokens 16-31, then
  // of rows 16-31.
  template <bool kTwoRows, bool kTwoTokens>
  [[gnu::always_inline]] static void AddProducts(const std::byte* w,
                                                 const std::byte* x) {
    _tile_loadd(6, x, 64);
    _tile_loadd(4, w, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoRows) {
      _tile_loadd(5, w + kTileBytes, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kTwoTokens) {
      _tile_loadd(7, x + kTileBytes, 64);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (kTwoRows) _tile_dpbf16ps(3, 5, 7);
    }
  }

  template <bool kTwoRows, bool kTwoTokens>
  void MultiplyBlock(Piece piece, size_t block, size_t num_steps) {
    std::byte* finished = args_.scratch + 2 * kPanelBytes;
    std::byte* sums =
        finished + kSumsBytes +
        (piece.row % row_chunk_ / kRowBlock * num_token_blocks_ + block) *
            kSumsBytes;
    if (piece.step == 0) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    } else if (!sums_stay_) {
      _tile_loadd(0, sums, 64);
      if (kTwoTokens) _tile_loadd(1, sums + kTileBytes, 64);
      if (kTwoRows) _tile_loadd(2, sums + 2 * kTileBytes, 64);
      if (kTwoRows && kTwoTokens) _tile_loadd(3, sums + 3 * kTileBytes, 64);
    }
    constexpr size_t kXBytes = Unpacker::kInputHalves * kTokenStepBytes;
    constexpr size_t kWBytes = Unpacker::kLinesOfStep * kLineStride;
    const std::byte* x =
        args_.x + block * args_.x_stride_bytes + piece.step * kXBytes;
    const std::byte* w = panel_;
    for (size_t step = 0; step < num_steps;
         ++step, x += kXBytes, w += kWBytes) {
      if constexpr (Unpacker::kLinesOfStep == 2) {
        AddProducts<kTwoRows, kTwoTokens>(w + kLineStride, x);
        WorkAside();
      }
      if constexpr (Unpacker::kInputHalves == 2) {
        AddProducts<kTwoRows, kTwoTokens>(w, x + kTokenStepBytes);
        WorkAside();
      }
      AddProducts<kTwoRows, kTwoTokens>(w, x);
      WorkAside();
    }
    const bool is_last = piece.step + num_steps == num_steps_;
    if (is_last) {
      while (!writer_.is_done()) writer_.WritePart();
      sums = finished;
    } else if (sums_stay_) {
      return;
    }
    _tile_stored(0, sums, 64);
    if (kTwoTokens) _tile_stored(1, sums + kTileBytes, 64);
    if (kTwoRows) _tile_stored(2, sums + 2 * kTileBytes, 64);
    if (kTwoRows && kTwoTokens) _tile_stored(3, sums + 3 * kTileBytes, 64);
    if (is_last) {
      writer_ = SumsWriter(args_, sums, piece.row, block * kTokenBlock);
    }
  }

  const MatMulArgs& args_;
  const size_t num_steps_;
  const size_t num_token_blocks_;
  const size_t row_chunk_;
  const bool sums_stay_;              // in their tiles, from panel to panel
  const std::byte* panel_ = nullptr;  // of the piece that is multiplied
  PieceUnpacker<Unpacker> unpacker_;  // of the next
  SumsWriter writer_;                 // of the last block that was finished
  // Pairs to unpack per step, and those due, in units of 2^-16.
  size_t pair_rate_ = 0;
  size_t pair_clock_ = 0;
};

template <size_t kHalves>
void Fill(BatchMatMul& batch) {
  batch.group_tokens = kTokenBlock;
  batch.group_bytes = GroupBytes<kHalves>;
  batch.pack = Pack<kHalves>;
  batch.scratch_bytes = ScratchBytes;
}

template <class Unpacker>
void Set(DType dtype, BatchMatMul& batch) {
  batch.multiply_by_type[static_cast<uint32_t>(dtype)] =
      &AmxMatMul<Unpacker>::Run;
}

}  // namespace

void FillAmxMatMuls(KernelTable& table) {
  BatchMatMul& batch = table.batch;
  Fill<1>(batch);
  Set<Unpack32<LinesQ8_0>>(DType::kQ8_0, batch);
  Set<Unpack32<LinesQ4_0>>(DType::kQ4_0, batch);
  Set<Unpack32<LinesQ4_1>>(DType::kQ4_1, batch);
  Set<Unpack32<LinesQ5_0>>(DType::kQ5_0, batch);
  Set<Unpack32<LinesQ5_1>>(DType::kQ5_1, batch);
  Set<UnpackQ4_K>(DType::kQ4_K, batch);
  Set<UnpackQ5_K>(DType::kQ5_K, batch);
  Set<UnpackQ6_K>(DType::kQ6_K, batch);
  BatchMatMul& halves = table.float_batch;
  Fill<2>(halves);
  Set<UnpackF16>(DType::kF16, halves);
  Set<UnpackBf16>(DType::kBF16, halves);
}

}  // namespace thermocline::kernels
