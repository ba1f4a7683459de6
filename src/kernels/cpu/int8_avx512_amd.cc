// Int8 matrix products for AMD's CPUs with AVX-512, VNNI and GFNI: the results
// of int8_avx512_vnni.cc, bit by bit. Zen 4 has four pipes of 256 bits and does
// half an instruction of 512 at a time, so that fewer instructions are what
// counts. Speeds are of one thread, against the formats of int8_avx512.h.
#include "kernels/cpu/int8_avx512_k.h"
#include "kernels/cpu/int8_avx512_vnni.h"
#include "kernels/cpu/int8_matmul.h"

namespace thermocline::kernels {
namespace {

// Of each byte bits [from, from + count), moved to bit `to`, alone: what
// vgf2p8affineqb does for eight bytes by this matrix, a byte for each bit of
// the result, the last bit first.
constexpr int64_t MovedBits(int from, int count, int to) {
  uint64_t rows = 0;
  for (int i = 0; i < count; ++i) {
    rows |= uint64_t{1} << (from + i) << (8 * (7 - to - i));
  }
  return static_cast<int64_t>(rows);
}

inline __m512i MoveBits(__m512i v, __m512i matrix) {
  return _mm512_gf2p8affine_epi64_epi8(v, matrix, 0);
}

struct GfniDot : VnniDot {
  static __m512i HighNibbles(__m512i v) {
    return MoveBits(v, _mm512_set1_epi64(MovedBits(4, 4, 0)));
  }
};

// Keeps the compiler from mixing the instructions of four rows. From memory
// Q4_K is 1.07 times as fast (with GFNI; without that 1.02), Q5_K 1.05,
// Q5_1 1.3; Q4_0 and Q4_1 0.8 and 0.95 times.
template <class Format>
struct RowAfterRow : Format {
  static StepWeights Unpack(const std::byte* blocks) {
    StepWeights w = Format::Unpack(blocks);
    for (__m512i& q : w.q) KeepInRegister(q);
    return w;
  }
};

// Three loads where Q4_0 has six, most of which cross a line of the cache, and
// permutations of words, which are one instruction's work on AMD, and three on
// Intel: 1.03 times as fast in the cache, 1.05 to 1.1 from memory. What the
// zero point adds stands in the accumulators to begin with: 1.03 in the cache.
struct WordQ4 : Q4_0<GfniDot> {
  struct Input {
    __m512i q[4];
    __m512i start[2];  // of the even and the odd blocks' sums
    __m512 d;
  };

  static Input Prepare(const StepInput& x) {
    const StepActivations all = Q4_0::Prepare(x);
    const __m512i start = _mm512_sub_epi32(_mm512_setzero_si512(), all.addend);
    // Lanes 0 and 1 of four become the first of two that AddNeighbours() adds,
    // for even blocks; 2 and 3 for odd ones.
    return {{all.q[0], all.q[1], all.q[2], all.q[3]},
            {_mm512_maskz_shuffle_epi32(0x5555, start, _MM_PERM_BBAA),
             _mm512_maskz_shuffle_epi32(0x5555, start, _MM_PERM_DDCC)},
            all.d};
  }

  static Acc Step(const Weights& w, const Input& x, Acc acc) {
    const auto pair = [&](__m512i start, int i) {
      return GfniDot::AddPair(start, w.q[i], x.q[i], w.q[i + 1], x.q[i + 1]);
    };
    const __m512i lanes =
        AddNeighbours(pair(x.start[0], 0), pair(x.start[1], 2));
    return Add(lanes, w, x.d, acc);
  }

  static __m512i WordsOf(__m512i low, __m512i high,
                         const uint16_t (&words)[32]) {
    return _mm512_permutex2var_epi16(low, Load512(words), high);
  }

  static StepWeights Unpack(const std::byte* blocks) {
    alignas(64) static constexpr uint16_t kEven[32] = {
        1,  2,  3,  4,  5,  6,  7,  8,  19, 20, 21, 22, 23, 24, 25, 26,
        37, 38, 39, 40, 41, 42, 43, 44, 55, 56, 57, 58, 59, 60, 61, 62};
    alignas(64) static constexpr uint16_t kOdd[32] = {
        10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31, 32, 33, 34, 35,
        46, 47, 48, 49, 50, 51, 52, 53, 0,  0,  0,  0,  0,  0,  0,  0};
    alignas(64) static constexpr uint16_t kHeads[32] = {
        0, 0, 9, 9, 18, 18, 27, 27, 36, 36, 45, 45, 54, 54, 63, 63};
    const __m512i low = Load512(blocks);
    const __m512i high = Load512(blocks + 64);
    const __m512i even = WordsOf(low, high, kEven);
    const __m512i odd = _mm512_mask_broadcast_i32x4(
        WordsOf(low, high, kOdd), 0xF000, Load128(blocks + 128));
    StepWeights w;
    w.q[0] = LowNibbles(even);
    w.q[1] = GfniDot::HighNibbles(even);
    w.q[2] = LowNibbles(odd);
    w.q[3] = GfniDot::HighNibbles(odd);
    w.scale =
        _mm512_cvtph_ps(_mm512_castsi512_si256(WordsOf(low, high, kHeads)));
    return w;
  }
};

// Bits arrive where they belong by one instruction instead of a shift and a
// mask: row after row 1.1 times as fast from memory, 1.17 in the cache.
struct MovedQ6 : Q6_K<GfniDot> {
  static StepWeights Unpack(const std::byte* block) {
    constexpr int kMaskedAOrB = 0xEA;  // a & b | c
    const __m512i low_of_qh = Halves(MovedBits(0, 2, 4), MovedBits(2, 2, 4));
    const __m512i high_of_qh = Halves(MovedBits(4, 2, 4), MovedBits(6, 2, 4));
    StepWeights w;
    for (int half = 0; half < 2; ++half) {
      const __m512i ql = Load512(block + offsetof(BlockQ6_K, ql) + 64 * half);
      const __m512i qh = _mm512_broadcast_i64x4(
          Load256(block + offsetof(BlockQ6_K, qh) + 32 * half));
      w.q[2 * half] = _mm512_ternarylogic_epi64(
          ql, _mm512_set1_epi8(0x0F), MoveBits(qh, low_of_qh), kMaskedAOrB);
      w.q[2 * half + 1] =
          _mm512_or_si512(GfniDot::HighNibbles(ql), MoveBits(qh, high_of_qh));
    }
    w.scale = Scales(block);
    return w;
  }
};

// From memory Zen 4 reads 1.09 times as fast like this, with one thread. Types
// with more arithmetic for each line hide from the hardware what comes next:
// Q4_0 and Q4_K are 0.97 to 1.01 times as fast, in the same long calls.
struct NoPrefetchQ8 : VnniQ8 {
  static constexpr bool kLeavesPrefetchToHardware = true;
};

}  // namespace

void FillInt8MatMulsAmd(KernelTable& table) {
  Int8MatMul<WordQ4>::Fill(DType::kQ4_0, table);
  Int8MatMul<Q4_1<GfniDot>>::Fill(DType::kQ4_1, table);
  Int8MatMul<RowAfterRow<Q5_0<GfniDot>>>::Fill(DType::kQ5_0, table);
  Int8MatMul<RowAfterRow<Q5_1<GfniDot>>>::Fill(DType::kQ5_1, table);
  Int8MatMul<RowAfterRow<Q4_K<GfniDot>>>::Fill(DType::kQ4_K, table);
  Int8MatMul<RowAfterRow<Q5_K<GfniDot>>>::Fill(DType::kQ5_K, table);
  Int8MatMul<RowAfterRow<MovedQ6>>::Fill(DType::kQ6_K, table);
  Int8MatMul<NoPrefetchQ8>::Fill(DType::kQ8_0, table);
  table.call_bytes_by_type[static_cast<uint32_t>(DType::kQ8_0)] =
      kNoPrefetchCallBytes;
}

}  // namespace thermocline::kernels
