// How weights of each block type are unpacked into tiles (tile_driver.h), in
// terms of an ISA's Simd.
//
// Everything is done by columns: Simd::LoadColumns takes 16 bytes of each row
// of a vector and leaves vectors in which a lane of 32 bits belongs to a row.
// Quants, packed scales and fifth bits then unpack in all rows alike.
//
// Quants of types with a zero point (Q8_0 Q4_0 Q5_0 Q6_K) are stored in one of
// two ways. With Simd::kTopQuants they are in the uppermost bits of a byte,
// where each type's zero point is 128, and their scale is as much smaller; the
// ISA takes them as unsigned with that zero point, or flips the uppermost bit
// and has signed bytes (Simd::Centre). Otherwise they are unsigned and small,
// with the type's own zero point, and Q8_0 is cut into two planes: the lower
// and the upper four bits.
//
// Simd has for this: LoadColumns(rows, offset, out[4]); LoadHeads(words);
// Bits(v, shift, mask): v shifted left, or right if negative, in words of 16
// bits, and each byte masked; Or(a, b); FlipTop(v): v ^ 0x80; Centre(v);
// SpreadBits(v, i): 0x80 in byte j of a lane if its bit 4i + j is set, else 0;
// Unsigned(v, i), Signed(v, i): byte i of each lane as a float; LowHalf(v),
// HighHalf(v): half-precision numbers of each lane; Mul, Splat.
#ifndef THERMOCLINE_KERNELS_CPU_TILE_FORMATS_H_
#define THERMOCLINE_KERNELS_CPU_TILE_FORMATS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tile_driver.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"

namespace thermocline::kernels {

// What the types have in common. Those without a zero point have minima.
template <class Simd, class BlockT, int kQuantBits, bool kHasZero>
struct TileFormat {
  using Bytes = typename Simd::Bytes;
  using Floats = typename Simd::Floats;
  using Rows = const std::byte* const*;

  static constexpr size_t kBlockBytes = sizeof(BlockT);
  static constexpr size_t kBlockElems = 32;
  static constexpr int kBits = kQuantBits;
  static constexpr bool kHasMin = !kHasZero;
  // Whether the dot products are those of quants less a zero point. Small ones
  // of five bits have one with minima too, 16, which these make good: so sums
  // of products fit in 16 bits.
  static constexpr bool kHasZeroPoint =
      kHasZero || (kBits == 5 && !Simd::kTopQuants);
  // Whether Unpack gets the first four bytes of each row's block.
  static constexpr bool kHasHeads = true;
  static constexpr size_t kHalves = 1;
  static constexpr size_t kPlanes = 1;
  static constexpr size_t kFactors = kHasMin ? 2 : 1;
  // How far left of their value quants are stored.
  static constexpr int kShift = kHasZero && Simd::kTopQuants ? 8 - kBits : 0;
  static constexpr float kScaleFactor = 1.0f / (1 << kShift);

  static Bytes Centre(Bytes quants) {
    return kHasZero && Simd::kTopQuants ? Simd::Centre(quants) : quants;
  }
  static Bytes LowNibbles(Bytes v) {
    return Simd::Bits(v, kShift, 0x0F << kShift);
  }
  static Bytes HighNibbles(Bytes v) {
    return Simd::Bits(v, kShift - 4, 0x0F << kShift);
  }
  static Floats Scale(Floats d) {
    return kShift == 0 ? d : Simd::Mul(d, Simd::Splat(kScaleFactor));
  }

  // Factors of the types that begin with d, or with d and m.
  template <class Tile>
  static void UnpackHeads(const uint32_t* heads, Tile& tile, size_t g) {
    const Bytes words = Simd::LoadHeads(heads);
    tile.factor[0][g] = Scale(Simd::LowHalf(words));
    if constexpr (kHasMin) {
      tile.factor[1][g] = Minimum(tile.factor[0][g], Simd::HighHalf(words));
    }
  }

  // What comes to each weight.
  static Floats Minimum(Floats d, Floats m) {
    return kHasZeroPoint ? Simd::MulAdd(d, Simd::Splat(16.0f), m) : m;
  }
};

template <class Simd, class BlockT, bool kHasZero>
struct TileFourBits : TileFormat<Simd, BlockT, 4, kHasZero> {
  using Base = TileFormat<Simd, BlockT, 4, kHasZero>;
  template <class Tile>
  static void Unpack(typename Base::Rows rows, size_t offset,
                     const uint32_t* heads, Tile* tile, size_t g) {
    Base::UnpackHeads(heads, *tile, g);
    typename Base::Bytes qs[4];
    Simd::LoadColumns(rows, offset + offsetof(BlockT, qs), qs);
    for (size_t i = 0; i < 4; ++i) {
      tile->q[i][0][g] = Base::Centre(Base::LowNibbles(qs[i]));
      tile->q[4 + i][0][g] = Base::Centre(Base::HighNibbles(qs[i]));
    }
  }
};

template <class Simd, class BlockT, bool kHasZero>
struct TileFiveBits : TileFormat<Simd, BlockT, 5, kHasZero> {
  using Base = TileFormat<Simd, BlockT, 5, kHasZero>;
  using typename Base::Bytes;

  template <class Tile>
  static void Unpack(typename Base::Rows rows, size_t offset,
                     const uint32_t* heads, Tile* tile, size_t g) {
    Base::UnpackHeads(heads, *tile, g);
    // Both are within the block: 16 bytes from the fifth bits on begin with
    // them and end four before the quants do.
    Bytes qh[4];
    Bytes qs[4];
    Simd::LoadColumns(rows, offset + offsetof(BlockT, qh), qh);
    Simd::LoadColumns(rows, offset + offsetof(BlockT, qs), qs);
    for (size_t i = 0; i < 4; ++i) {
      tile->q[i][0][g] = Join(Base::LowNibbles(qs[i]), qh[0], i);
      tile->q[4 + i][0][g] = Join(Base::HighNibbles(qs[i]), qh[0], 4 + i);
    }
  }

  static Bytes Join(Bytes nibbles, Bytes bits, size_t i) {
    constexpr int kTo = 4 + Base::kShift;
    const Bytes fifth =
        Simd::Bits(Simd::SpreadBits(bits, i), kTo - 7, 1 << kTo);
    return Base::Centre(Simd::Or(nibbles, fifth));
  }
};

template <class Simd>
struct TileQ4_0 : TileFourBits<Simd, BlockQ4_0, true> {};
template <class Simd>
struct TileQ4_1 : TileFourBits<Simd, BlockQ4_1, false> {};
template <class Simd>
struct TileQ5_0 : TileFiveBits<Simd, BlockQ5_0, true> {};
template <class Simd>
struct TileQ5_1 : TileFiveBits<Simd, BlockQ5_1, false> {};

template <class Simd>
struct TileQ8_0 : TileFormat<Simd, BlockQ8_0, 8, true> {
  using Base = TileFormat<Simd, BlockQ8_0, 8, true>;
  static constexpr size_t kPlanes = Simd::kTopQuants ? 1 : 2;

  template <class Tile>
  static void Unpack(typename Base::Rows rows, size_t offset,
                     const uint32_t* heads, Tile* tile, size_t g) {
    Base::UnpackHeads(heads, *tile, g);
    for (size_t half = 0; half < 2; ++half) {
      typename Base::Bytes qs[4];
      Simd::LoadColumns(rows, offset + offsetof(BlockQ8_0, qs) + 16 * half, qs);
      for (size_t i = 0; i < 4; ++i) {
        const auto q = Simd::FlipTop(qs[i]);
        auto& planes = tile->q[4 * half + i];
        if constexpr (kPlanes == 1) {
          planes[0][g] = Base::Centre(q);
        } else {
          planes[0][g] = Simd::Bits(q, 0, 0x0F);
          planes[1][g] = Simd::Bits(q, -4, 0x0F);
        }
      }
    }
  }
};

// Q4_K and Q5_K.
template <class Simd, class BlockT, int kBits>
struct TileWithMins : TileFormat<Simd, BlockT, kBits, false> {
  using Base = TileFormat<Simd, BlockT, kBits, false>;
  using typename Base::Bytes;
  static constexpr size_t kBlockElems = kSuperBlock;
  static constexpr bool kHasHeads = false;

  template <class Tile>
  static void Unpack(typename Base::Rows rows, size_t offset, const uint32_t*,
                     Tile* tile, size_t g) {
    UnpackScales(rows, offset, tile, g);
    Bytes fifth[2][4];
    if constexpr (kBits == 5) {
      for (size_t half = 0; half < 2; ++half) {
        Simd::LoadColumns(rows, offset + offsetof(BlockT, qh) + 16 * half,
                          fifth[half]);
      }
    }
    for (int pair = 0; pair < 4; ++pair) {
      for (size_t half = 0; half < 2; ++half) {
        Bytes qs[4];
        Simd::LoadColumns(rows,
                          offset + offsetof(BlockT, qs) +
                              32 * static_cast<size_t>(pair) + 16 * half,
                          qs);
        for (size_t i = 0; i < 4; ++i) {
          Bytes low = Base::LowNibbles(qs[i]);
          Bytes high = Base::HighNibbles(qs[i]);
          if constexpr (kBits == 5) {
            const Bytes bits = fifth[half][i];
            low = Simd::Or(low, Simd::Bits(bits, 4 - 2 * pair, 0x10));
            high = Simd::Or(high, Simd::Bits(bits, 3 - 2 * pair, 0x10));
          }
          tile[2 * pair].q[4 * half + i][0][g] = low;
          tile[2 * pair + 1].q[4 * half + i][0][g] = high;
        }
      }
    }
  }

  // A block begins with d, dmin and the twelve bytes that pack eight scales and
  // eight minima of six bits: those of the first four sub-blocks in the low six
  // bits of bytes 0-3 and 4-7; the low four bits of the others in bytes 8-11,
  // the upper two on top of the first.
  template <class Tile>
  static void UnpackScales(typename Base::Rows rows, size_t offset, Tile* tile,
                           size_t g) {
    Bytes head[4];
    Simd::LoadColumns(rows, offset, head);
    const auto d = Simd::LowHalf(head[0]);
    const auto minus_dmin =
        Simd::Mul(Simd::HighHalf(head[0]), Simd::Splat(-1.0f));
    const Bytes scales[2] = {
        Simd::Bits(head[1], 0, 0x3F),
        Simd::Or(Simd::Bits(head[3], 0, 0x0F), Simd::Bits(head[1], -2, 0x30))};
    const Bytes mins[2] = {
        Simd::Bits(head[2], 0, 0x3F),
        Simd::Or(Simd::Bits(head[3], -4, 0x0F), Simd::Bits(head[2], -2, 0x30))};
    for (int i = 0; i < 8; ++i) {
      const auto scale = Simd::Mul(Simd::Unsigned(scales[i / 4], i % 4), d);
      tile[i].factor[0][g] = scale;
      tile[i].factor[1][g] = Base::Minimum(
          scale, Simd::Mul(Simd::Unsigned(mins[i / 4], i % 4), minus_dmin));
    }
  }
};

template <class Simd>
struct TileQ4_K : TileWithMins<Simd, BlockQ4_K, 4> {};
template <class Simd>
struct TileQ5_K : TileWithMins<Simd, BlockQ5_K, 5> {};

template <class Simd>
struct TileQ6_K : TileFormat<Simd, BlockQ6_K, 6, true> {
  using Base = TileFormat<Simd, BlockQ6_K, 6, true>;
  using typename Base::Bytes;
  static constexpr size_t kBlockElems = kSuperBlock;
  static constexpr bool kHasHeads = false;
  static constexpr size_t kHalves = 2;
  static constexpr size_t kFactors = 2;

  template <class Tile>
  static void Unpack(typename Base::Rows rows, size_t offset, const uint32_t*,
                     Tile* tile, size_t g) {
    UnpackScales(rows, offset, tile, g);
    for (size_t part = 0; part < 4; ++part) {
      // 16 columns of four sub-blocks.
      const size_t half = part / 2;
      const size_t column = 4 * (part % 2);
      const size_t ql =
          offset + offsetof(BlockQ6_K, ql) + 64 * half + 4 * column;
      Bytes first[4];
      Bytes second[4];
      Bytes upper[4];
      Simd::LoadColumns(rows, ql, first);
      Simd::LoadColumns(rows, ql + 32, second);
      Simd::LoadColumns(rows, offset + offsetof(BlockQ6_K, qh) + 16 * part,
                        upper);
      Tile* to = tile + 4 * half;
      for (size_t i = 0; i < 4; ++i) {
        to[0].q[column + i][0][g] =
            Join<0>(Base::LowNibbles(first[i]), upper[i]);
        to[1].q[column + i][0][g] =
            Join<1>(Base::LowNibbles(second[i]), upper[i]);
        to[2].q[column + i][0][g] =
            Join<2>(Base::HighNibbles(first[i]), upper[i]);
        to[3].q[column + i][0][g] =
            Join<3>(Base::HighNibbles(second[i]), upper[i]);
      }
    }
  }

  // With the bits 2 * kPair and 2 * kPair + 1 of `upper` on top.
  template <int kPair>
  static Bytes Join(Bytes nibbles, Bytes upper) {
    constexpr int kTo = 4 + Base::kShift;
    return Base::Centre(
        Simd::Or(nibbles, Simd::Bits(upper, kTo - 2 * kPair, 3 << kTo)));
  }

  template <class Tile>
  static void UnpackScales(typename Base::Rows rows, size_t offset, Tile* tile,
                           size_t g) {
    // The block's last 16 bytes end with d.
    Bytes tail[4];
    Bytes scales[4];
    Simd::LoadColumns(rows, offset + sizeof(BlockQ6_K) - 16, tail);
    Simd::LoadColumns(rows, offset + offsetof(BlockQ6_K, scales), scales);
    const auto d = Base::Scale(Simd::HighHalf(tail[3]));
    for (int i = 0; i < 16; ++i) {
      tile[i / 2].factor[i % 2][g] =
          Simd::Mul(Simd::Signed(scales[i / 4], i % 4), d);
    }
  }
};

// Sets table.batch.
template <class Simd>
void FillTileBatch(KernelTable& table) {
  BatchMatMul& batch = table.batch;
  batch.group_tokens = Simd::kTokens;
  batch.group_bytes = &TilePacking<Simd>::GroupBytes;
  batch.pack = &TilePacking<Simd>::Pack;
  batch.scratch_bytes = &TilePacking<Simd>::ScratchBytes;
  const auto set = [&batch](DType dtype, MatMulFn fn) {
    batch.multiply_by_type[static_cast<uint32_t>(dtype)] = fn;
  };
  set(DType::kQ8_0, &TileMatMul<Simd, TileQ8_0<Simd>>::Run);
  set(DType::kQ4_0, &TileMatMul<Simd, TileQ4_0<Simd>>::Run);
  set(DType::kQ4_1, &TileMatMul<Simd, TileQ4_1<Simd>>::Run);
  set(DType::kQ5_0, &TileMatMul<Simd, TileQ5_0<Simd>>::Run);
  set(DType::kQ5_1, &TileMatMul<Simd, TileQ5_1<Simd>>::Run);
  set(DType::kQ4_K, &TileMatMul<Simd, TileQ4_K<Simd>>::Run);
  set(DType::kQ5_K, &TileMatMul<Simd, TileQ5_K<Simd>>::Run);
  set(DType::kQ6_K, &TileMatMul<Simd, TileQ6_K<Simd>>::Run);
}

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_CPU_TILE_FORMATS_H_
