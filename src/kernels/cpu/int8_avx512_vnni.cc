// Int8 matrix products for AVX-512 with VNNI.
#include "kernels/cpu/int8_avx512.h"
#include "kernels/cpu/int8_matmul.h"

namespace thermocline::kernels {
namespace {

struct UnsignedDot {
  static __m512i One(__m512i w, __m512i x) {
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, x);
  }
  static __m512i Pair(__m512i w0, __m512i x0, __m512i w1, __m512i x1) {
    return _mm512_dpbusd_epi32(One(w0, x0), w1, x1);
  }
};

// With the sign bit flipped the quants are unsigned and 128 too large.
using AskedQ8_0 = Q8_0<UnsignedDot, -128, Offset::kZeroPoint, 7>;

// From memory Zen 4 reads 1.09 times as fast like this, with one thread. Types
// with more arithmetic for each line hide from the hardware what comes next:
// Q4_0 and Q4_K are 0.97 to 1.01 times as fast, in the same long calls.
struct UnaskedQ8_0 : AskedQ8_0 {
  static constexpr bool kLeavesAskingToHardware = true;
};

}  // namespace

void FillInt8MatMulsAvx512Vnni(bool reads_streams_ahead, KernelTable& table) {
  FillUnsigned<UnsignedDot>(table);
  if (reads_streams_ahead) {
    Int8MatMul<UnaskedQ8_0>::Fill(DType::kQ8_0, table);
    table.call_bytes_by_type[static_cast<uint32_t>(DType::kQ8_0)] =
        kUnaskedCallBytes;
  } else {
    Int8MatMul<AskedQ8_0>::Fill(DType::kQ8_0, table);
  }
}

}  // namespace thermocline::kernels
