// Rows of block-quantised weights, unpacked a step at a time to quants of eight
// bits and the floats that they are scaled by.
#if defined(THERMOCLINE_KERNELS_CPU_QUANT_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef THERMOCLINE_KERNELS_CPU_QUANT_ROWS_INL_H_
#undef THERMOCLINE_KERNELS_CPU_QUANT_ROWS_INL_H_
#else
#define THERMOCLINE_KERNELS_CPU_QUANT_ROWS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/float_rows-inl.h"
#include "tensor/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace thermocline::kernels::HWY_NAMESPACE {

// 256 elements: eight blocks, or one of the K types.
constexpr size_t kStepElems = 256;

// A step of one row with its coefficient c. Element e is worth
//   c * value = scale[e / kScaleElems] * q                without a minimum,
//   value = scale[e / kScaleElems] * q + min[e / 32]      with one.
struct QuantStep {
  alignas(64) int8_t q[kStepElems];  // not of types that lie ready in the row
  alignas(64) float scale[16];
  alignas(64) float min[8];
  const std::byte* blocks;
};

// Where the nibbles of 64 elements lie in two times 16 bytes, which begin with
// elements 0-15 in their low nibbles.
enum class Nibbles {
  kNone,       // not here: the type has other quants
  kBlocks,     // low 0-15, high 16-31; low 32-47, high 48-63
  kSubBlocks,  // low 0-15, high 32-47; low 16-31, high 48-63
};

using Bytes16 = hn::FixedTag<uint8_t, 16>;
using SignedBytes16 = hn::FixedTag<int8_t, 16>;

HWY_INLINE hn::Vec<Bytes16> Load16(const std::byte* p) {
  return hn::LoadU(Bytes16(), reinterpret_cast<const uint8_t*>(p));
}

// Stores quants - kZero.
template <int kZero>
HWY_INLINE void StoreQuants(hn::Vec<Bytes16> quants, int8_t* q) {
  const SignedBytes16 bytes;
  hn::StoreU(hn::Sub(hn::BitCast(bytes, quants), hn::Set(bytes, kZero)), bytes,
             q);
}

HWY_INLINE hn::Vec<Bytes16> LowNibbles(hn::Vec<Bytes16> v) {
  return hn::And(v, hn::Set(Bytes16(), 0x0F));
}

HWY_INLINE uint32_t LoadU32(const std::byte* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

// The first two half-precision numbers of a block.
struct Heads {
  float first;
  float second;
};
HWY_INLINE Heads HeadsOf(const std::byte* block) {
  const hn::CappedTag<float, 4> four;
  const hn::Rebind<hwy::float16_t, decltype(four)> halves;
  const auto heads = hn::PromoteTo(
      four, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(block)));
  return {hn::GetLane(heads), hn::ExtractLane(heads, 1)};
}

// Types with blocks of 32.
template <class Block, bool kMin>
struct Blocks32 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kBlock;
  static constexpr size_t kStepBytes = kStepElems / kBlock * sizeof(Block);
  static constexpr size_t kScaleElems = kBlock;
  static constexpr bool kHasMin = kMin;
  static constexpr Nibbles kNibbles = Nibbles::kNone;

  static HWY_INLINE void UnpackScales(float coef, QuantStep& step) {
#if HWY_TARGET == HWY_AVX3
    // The heads, each of 32 bits, of eight blocks.
    __m256i heads = _mm256_set1_epi32(static_cast<int>(LoadU32(step.blocks)));
    for (int b = 1; b < 8; ++b) {
      heads = _mm256_mask_set1_epi32(
          heads, static_cast<__mmask8>(1 << b),
          static_cast<int>(LoadU32(step.blocks + b * sizeof(Block))));
    }
    const __m256 firsts = _mm256_cvtph_ps(_mm256_cvtepi32_epi16(heads));
    if constexpr (kMin) {
      _mm256_store_ps(step.scale, firsts);
      _mm256_store_ps(
          step.min,
          _mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srli_epi32(heads, 16))));
    } else {
      _mm256_store_ps(step.scale, _mm256_mul_ps(firsts, _mm256_set1_ps(coef)));
    }
#else
    for (size_t b = 0; b < kStepElems / kBlock; ++b) {
      const Heads heads = HeadsOf(step.blocks + b * sizeof(Block));
      step.scale[b] = kMin ? heads.first : coef * heads.first;
      if (kMin) step.min[b] = heads.second;
    }
#endif
  }

  static HWY_INLINE const int8_t* Quants(const QuantStep& step, size_t elem) {
    return step.q + elem;
  }
};

struct Q8_0 : Blocks32<BlockQ8_0, false> {
  static HWY_INLINE void UnpackQuants(QuantStep&) {}
  static HWY_INLINE const int8_t* Quants(const QuantStep& step, size_t elem) {
    return reinterpret_cast<const int8_t*>(
        step.blocks + elem / kBlock * kBlockBytes + offsetof(BlockQ8_0, qs));
  }
};

// Types with blocks of nibbles, and maybe a fifth bit, less kZero.
template <class Block, bool kMin, bool kFifthBit, int kZero>
struct NibbleBlocks : Blocks32<Block, kMin> {
  static HWY_INLINE void UnpackQuants(QuantStep& step) {
    for (size_t b = 0; b < kStepElems / kBlock; ++b) {
      const std::byte* block = step.blocks + b * sizeof(Block);
      const auto nibbles = Load16(block + offsetof(Block, qs));
      auto low = LowNibbles(nibbles);
      auto high = hn::ShiftRight<4>(nibbles);
      if constexpr (kFifthBit) {
        const uint32_t bits = LoadU32(block + offsetof(Block, qh));
        low = hn::Or(low, SixteenWhere(bits));
        high = hn::Or(high, SixteenWhere(bits >> 16));
      }
      StoreQuants<kZero>(low, step.q + b * kBlock);
      StoreQuants<kZero>(high, step.q + b * kBlock + 16);
    }
  }

  // 16 bytes of elem's block, or (half 1) of the next one.
  static HWY_INLINE const std::byte* NibblesAt(const QuantStep& step,
                                               size_t elem, size_t half) {
    return step.blocks + (elem / kBlock + half) * sizeof(Block) +
           offsetof(Block, qs);
  }

 private:
  // 16 in each byte whose bit, of the lower 16, is set.
  static HWY_INLINE hn::Vec<Bytes16> SixteenWhere(uint32_t bits) {
    const hn::Repartition<uint16_t, Bytes16> words;
    const hn::Repartition<uint64_t, Bytes16> longs;
    const auto pairs =
        hn::BitCast(Bytes16(), hn::Set(words, static_cast<uint16_t>(bits)));
    alignas(16) static constexpr uint8_t kBytes[16] = {0, 0, 0, 0, 0, 0, 0, 0,
                                                       1, 1, 1, 1, 1, 1, 1, 1};
    const auto spread =
        hn::TableLookupBytes(pairs, hn::Load(Bytes16(), kBytes));
    const auto bit =
        hn::BitCast(Bytes16(), hn::Set(longs, uint64_t{0x8040201008040201}));
    const auto hits = hn::VecFromMask(Bytes16(), hn::TestBit(spread, bit));
    return hn::And(hits, hn::Set(Bytes16(), 16));
  }
};

struct Q4_0 : NibbleBlocks<BlockQ4_0, false, false, 8> {
  static constexpr Nibbles kNibbles = Nibbles::kBlocks;

#if HWY_TARGET == HWY_AVX3
  // Eight blocks of 18 bytes in two times 72, with a number each 9 words.
  static HWY_INLINE void UnpackScales(float coef, QuantStep& step) {
    const __m512i words =
        _mm512_castsi128_si512(_mm_setr_epi16(0, 9, 18, 27, 0, 9, 18, 27));
    const __m512i first =
        _mm512_permutexvar_epi16(words, _mm512_loadu_si512(step.blocks));
    const __m512i heads = _mm512_mask_permutexvar_epi16(
        first, 0xF0, words, _mm512_loadu_si512(step.blocks + kStepBytes / 2));
    _mm256_store_ps(
        step.scale,
        _mm256_mul_ps(_mm256_cvtph_ps(_mm512_castsi512_si128(heads)),
                      _mm256_set1_ps(coef)));
  }
#endif
};
struct Q4_1 : NibbleBlocks<BlockQ4_1, true, false, 0> {
  static constexpr Nibbles kNibbles = Nibbles::kBlocks;
};
struct Q5_0 : NibbleBlocks<BlockQ5_0, false, true, 16> {};
struct Q5_1 : NibbleBlocks<BlockQ5_1, true, true, 0> {};

// Types with blocks of 256.
template <class Block>
struct Blocks256 {
  static constexpr size_t kBlockBytes = sizeof(Block);
  static constexpr size_t kBlockElems = kSuperBlock;
  static constexpr size_t kStepBytes = sizeof(Block);

  static HWY_INLINE const int8_t* Quants(const QuantStep& step, size_t elem) {
    return step.q + elem;
  }
};

// out[i] = bytes[i] * factor, i < 8.
HWY_INLINE void ScaleBytes(uint64_t bytes, float factor, float* out) {
  const hn::CappedTag<float, 8> floats;
  const hn::Rebind<int32_t, decltype(floats)> ints;
  const hn::Rebind<uint8_t, decltype(floats)> small;
  alignas(8) uint8_t in[8];
  std::memcpy(in, &bytes, sizeof(in));
  for (size_t i = 0; i < 8; i += hn::Lanes(floats)) {
    const auto values =
        hn::ConvertTo(floats, hn::PromoteTo(ints, hn::LoadU(small, in + i)));
    hn::Store(hn::Mul(values, hn::Set(floats, factor)), floats, out + i);
  }
}

// Q4_K and Q5_K: blocks begin with d, dmin and the twelve bytes that pack eight
// scales and eight minima of six bits: those of the first four sub-blocks in
// the low six bits of bytes 0-3 and 4-7; the low four bits of the others in
// bytes 8-11, the upper two on top of the first.
template <class Block>
struct SubBlocks32 : Blocks256<Block> {
  static constexpr size_t kScaleElems = 32;
  static constexpr bool kHasMin = true;

  static HWY_INLINE void UnpackScales(float /*coef*/, QuantStep& step) {
    const uint32_t a = LoadU32(step.blocks + 4);
    const uint32_t b = LoadU32(step.blocks + 8);
    const uint32_t c = LoadU32(step.blocks + 12);
    const uint64_t scales =
        (a & 0x3F3F3F3F) | uint64_t{(c & 0x0F0F0F0F) | (a >> 2 & 0x30303030)}
                               << 32;
    const uint64_t minima =
        (b & 0x3F3F3F3F) |
        uint64_t{(c >> 4 & 0x0F0F0F0F) | (b >> 2 & 0x30303030)} << 32;
    const Heads heads = HeadsOf(step.blocks);
    ScaleBytes(scales, heads.first, step.scale);
    ScaleBytes(minima, -heads.second, step.min);
  }
};

struct Q4_K : SubBlocks32<BlockQ4_K> {
  static constexpr Nibbles kNibbles = Nibbles::kSubBlocks;

  static HWY_INLINE void UnpackQuants(QuantStep& step) {
    for (size_t i = 0; i < 8; ++i) {
      const auto nibbles =
          Load16(step.blocks + offsetof(BlockQ4_K, qs) + 16 * i);
      int8_t* q = step.q + i / 2 * 64 + i % 2 * 16;
      StoreQuants<0>(LowNibbles(nibbles), q);
      StoreQuants<0>(hn::ShiftRight<4>(nibbles), q + 32);
    }
  }

  static HWY_INLINE const std::byte* NibblesAt(const QuantStep& step,
                                               size_t elem, size_t half) {
    return step.blocks + offsetof(BlockQ4_K, qs) + elem / 2 + 16 * half;
  }
};

struct Q5_K : SubBlocks32<BlockQ5_K> {
  static constexpr Nibbles kNibbles = Nibbles::kNone;

  static HWY_INLINE void UnpackQuants(QuantStep& step) {
    const Bytes16 bytes;
    for (size_t half = 0; half < 2; ++half) {
      const auto qh = Load16(step.blocks + offsetof(BlockQ5_K, qh) + 16 * half);
      for (size_t k = 0; k < 4; ++k) {
        const auto nibbles =
            Load16(step.blocks + offsetof(BlockQ5_K, qs) + 32 * k + 16 * half);
        int8_t* q = step.q + 64 * k + 16 * half;
        const auto sixteen_where = [&](size_t bit) HWY_ATTR {
          const auto mask = hn::Set(bytes, static_cast<uint8_t>(1 << bit));
          return hn::And(hn::VecFromMask(bytes, hn::TestBit(qh, mask)),
                         hn::Set(bytes, 16));
        };
        StoreQuants<0>(hn::Or(LowNibbles(nibbles), sixteen_where(2 * k)), q);
        StoreQuants<0>(
            hn::Or(hn::ShiftRight<4>(nibbles), sixteen_where(2 * k + 1)),
            q + 32);
      }
    }
  }
};

struct Q6_K : Blocks256<BlockQ6_K> {
  static constexpr size_t kScaleElems = 16;
  static constexpr bool kHasMin = false;
  static constexpr Nibbles kNibbles = Nibbles::kNone;

  static HWY_INLINE void UnpackScales(float coef, QuantStep& step) {
    const float d = LastHalf(step.blocks);
    const hn::Rebind<int32_t, Floats> ints;
    const hn::Rebind<int8_t, Floats> bytes;
    const auto* scales = reinterpret_cast<const int8_t*>(
        step.blocks + offsetof(BlockQ6_K, scales));
    for (size_t i = 0; i < 16; i += kLanes) {
      const FloatVec values = hn::ConvertTo(
          Floats(), hn::PromoteTo(ints, hn::LoadU(bytes, scales + i)));
      hn::Store(hn::Mul(hn::Set(Floats(), coef),
                        hn::Mul(hn::Set(Floats(), d), values)),
                Floats(), step.scale + i);
    }
  }

#if HWY_TARGET == HWY_AVX3
  static HWY_INLINE void UnpackQuants(QuantStep& step) {
    for (size_t half = 0; half < 2; ++half) {
      const __m512i ql =
          _mm512_loadu_si512(step.blocks + offsetof(BlockQ6_K, ql) + 64 * half);
      const __m512i qh = _mm512_broadcast_i64x4(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(
              step.blocks + offsetof(BlockQ6_K, qh) + 32 * half)));
      int8_t* q = step.q + 128 * half;
      StoreJoined(ql, _mm512_sllv_epi64(qh, Halves(4, 2)), q);
      StoreJoined(_mm512_srli_epi64(ql, 4), _mm512_srlv_epi64(qh, Halves(0, 2)),
                  q + 64);
    }
  }
#else
  static HWY_INLINE void UnpackQuants(QuantStep& step) {
    for (size_t i = 0; i < 4; ++i) {
      const std::byte* ql_bytes =
          step.blocks + offsetof(BlockQ6_K, ql) + i / 2 * 64 + i % 2 * 16;
      const auto ql0 = Load16(ql_bytes);
      const auto ql1 = Load16(ql_bytes + 32);
      const auto qh = Load16(step.blocks + offsetof(BlockQ6_K, qh) + 16 * i);
      int8_t* q = step.q + i / 2 * 128 + i % 2 * 16;
      StoreJoined(LowNibbles(ql0), hn::ShiftLeft<4>(qh), q);
      StoreJoined(LowNibbles(ql1), hn::ShiftLeft<2>(qh), q + 32);
      StoreJoined(hn::ShiftRight<4>(ql0), qh, q + 64);
      StoreJoined(hn::ShiftRight<4>(ql1), hn::ShiftRight<2>(qh), q + 96);
    }
  }
#endif

 private:
  // The half-precision number that ends a block.
  static HWY_INLINE float LastHalf(const std::byte* block) {
    const hn::CappedTag<float, 4> four;
    const hn::Rebind<hwy::float16_t, decltype(four)> halves;
    return hn::ExtractLane(
        hn::PromoteTo(four,
                      hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(
                                            block + sizeof(BlockQ6_K) - 8))),
        3);
  }

  // Low four bits from `ql`, bits 4 and 5 from `qh`, less 32.
#if HWY_TARGET == HWY_AVX3
  // For 64-bit shifts: `low` for the first 32 bytes, `high` for the others.
  static HWY_INLINE __m512i Halves(int64_t low, int64_t high) {
    return _mm512_setr_epi64(low, low, low, low, high, high, high, high);
  }
  static HWY_INLINE void StoreJoined(__m512i ql, __m512i qh, int8_t* q) {
    constexpr int kAOrBAndC = 0xF8;
    const __m512i joined =
        _mm512_ternarylogic_epi64(_mm512_and_si512(ql, _mm512_set1_epi8(0x0F)),
                                  qh, _mm512_set1_epi8(0x30), kAOrBAndC);
    _mm512_store_si512(q, _mm512_sub_epi8(joined, _mm512_set1_epi8(32)));
  }
#else
  static HWY_INLINE void StoreJoined(hn::Vec<Bytes16> ql, hn::Vec<Bytes16> qh,
                                     int8_t* q) {
    const auto upper = hn::And(qh, hn::Set(Bytes16(), 0x30));
    StoreQuants<32>(hn::Or(ql, upper), q);
  }
#endif
};

}  // namespace thermocline::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // THERMOCLINE_KERNELS_CPU_QUANT_ROWS_INL_H_
