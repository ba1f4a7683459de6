// Reads the rows that device_rows.h describes: a warp's product of one row with
// T rows of x, and eight weights of a row at once. For kernels.
#ifndef THERMOCLINE_KERNELS_CUDA_DOT_ROWS_H_
#define THERMOCLINE_KERNELS_CUDA_DOT_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "tensor/blocks.h"

namespace thermocline::cuda {

// Rows of x, [num_rows, n]: as they are, and rounded (LaunchQuantizeRows), of
// which a type of weights needs one.
struct XRows {
  const float* floats;
  const std::byte* quants;
  int n;
  int num_rows;
};

// One row of x in 8 bits.
struct XQuants {
  const int4* quants;   // [n / 16]
  const float* scales;  // [n / 32]
  const int* sums;      // [n / 32], of 16 quants each: lower half, upper half
};
__device__ inline XQuants XQuantsAt(const std::byte* rows, int n, int row) {
  const int blocks = n / kBlock;
  const int stride = (blocks * 40 + 15) / 16 * 16;
  const std::byte* base = rows + static_cast<size_t>(row) * stride;
  return {reinterpret_cast<const int4*>(base),
          reinterpret_cast<const float*>(base + n),
          reinterpret_cast<const int*>(base + n + blocks * 4)};
}
__device__ inline int LowerSum(int sums) { return static_cast<int16_t>(sums); }
__device__ inline int UpperSum(int sums) { return sums >> 16; }

template <DType kType>
constexpr bool kIsFloatRow = kType == DType::kF16 || kType == DType::kBF16;
template <DType kType>
constexpr bool kIsAffineRow = kType == DType::kQ4_K || kType == DType::kQ5_K;
// Elements of 16 bytes of quants, which a lane takes at once.
template <DType kType>
constexpr int kUnit = kIsFloatRow<kType>      ? 8
                      : kType == DType::kQ8_0 ? 16
                                              : 32;

template <typename T>
__device__ inline const T* ArrayAt(const std::byte* row, int offset) {
  return reinterpret_cast<const T*>(row + offset);
}

// What levels of 32 elements have above their nibbles.
struct UpperBits {
  unsigned first = 0, second = 0;
};
template <DType kType>
__device__ UpperBits LoadUpperBits(const std::byte* row, int n, int unit) {
  UpperBits bits;
  if constexpr (kType == DType::kQ5_K) {
    bits.first = ArrayAt<unsigned>(row, n / 2 + n / 16)[unit];
  } else if constexpr (kType == DType::kQ6_K) {
    const uint2 both = ArrayAt<uint2>(row, n / 2)[unit];
    bits.first = both.x;
    bits.second = both.y;
  }
  return bits;
}

// Four levels, a byte each, of word k of 16 bytes of quants; HighLevels: those
// 16 elements further on.
template <DType kType>
__device__ unsigned LowLevels(unsigned word, const UpperBits& bits, int k) {
  unsigned levels = word & 0x0f0f0f0fu;
  if constexpr (kType == DType::kQ5_K) {
    levels |= (bits.first >> k & 0x01010101u) << 4;
  } else if constexpr (kType == DType::kQ6_K) {
    levels |= (bits.first >> (2 * k) & 0x03030303u) << 4;
  }
  return levels;
}
template <DType kType>
__device__ unsigned HighLevels(unsigned word, const UpperBits& bits, int k) {
  unsigned levels = word >> 4 & 0x0f0f0f0fu;
  if constexpr (kType == DType::kQ5_K) {
    levels |= (bits.first >> (k + 4) & 0x01010101u) << 4;
  } else if constexpr (kType == DType::kQ6_K) {
    levels |= (bits.second >> (2 * k) & 0x03030303u) << 4;
  }
  return levels;
}

// Of 32 elements with levels: element = step * (level - kZero) - offset, the
// second step from the 16th element on.
template <DType kType>
constexpr int kZero = kType == DType::kQ4_0   ? 8
                      : kType == DType::kQ6_K ? 32
                                              : 0;
struct Steps {
  float first, second, offset;
};
template <DType kType>
__device__ Steps LoadSteps(const std::byte* row, int n, int unit) {
  if constexpr (kType == DType::kQ4_0) {
    const float d = F16ToF32(ArrayAt<uint16_t>(row, n / 2)[unit]);
    return {d, d, 0.0f};
  } else if constexpr (kIsAffineRow<kType>) {
    const uint4 head = ArrayAt<uint4>(row, n / 2)[unit / 8];
    const int shift = unit % 8 * 4;
    const unsigned upper = head.w >> shift;
    const unsigned scale = (head.y >> shift & 15) | (upper & 3) << 4;
    const unsigned min = (head.z >> shift & 15) | (upper & 12) << 2;
    const float step = F16ToF32(static_cast<uint16_t>(head.x & 0xffff)) *
                       __int2float_rn(static_cast<int>(scale));
    const float offset = F16ToF32(static_cast<uint16_t>(head.x >> 16)) *
                         __int2float_rn(static_cast<int>(min));
    return {step, step, offset};
  } else {
    static_assert(kType == DType::kQ6_K);
    const int at = n / 2 + n / 4;
    const unsigned scales = ArrayAt<uint16_t>(row, at)[unit];
    const float d = F16ToF32(ArrayAt<uint16_t>(row, at + n / 16)[unit / 8]);
    const int first = static_cast<int8_t>(scales & 0xff);
    const int second = static_cast<int8_t>(scales >> 8);
    return {d * __int2float_rn(first), d * __int2float_rn(second), 0.0f};
  }
}

// 16 bytes of a row's quants with all that belongs to them.
template <DType kType>
struct Unit {
  uint4 quants;
  UpperBits upper;
  Steps steps;
};
template <DType kType>
__device__ void LoadUnit(const std::byte* row, int n, int index,
                         Unit<kType>* unit) {
  unit->quants = ArrayAt<uint4>(row, 0)[index];
  if constexpr (kType == DType::kQ8_0) {
    unit->steps.first = F16ToF32(ArrayAt<uint16_t>(row, n)[index / 2]);
  } else if constexpr (!kIsFloatRow<kType>) {
    unit->upper = LoadUpperBits<kType>(row, n, index);
    unit->steps = LoadSteps<kType>(row, n, index);
  }
}

__device__ inline int Dot4(unsigned a, int b, int sum) {
  return __dp4a(static_cast<int>(a), b, sum);
}

// sum + unit * x.
template <DType kType>
__device__ float AddDot(const Unit<kType>& unit, const XQuants& x, int index,
                        float sum) {
  const uint4& q = unit.quants;
  if constexpr (kType == DType::kQ8_0) {
    const int4 a = x.quants[index];
    const int dot =
        Dot4(q.w, a.w, Dot4(q.z, a.z, Dot4(q.y, a.y, Dot4(q.x, a.x, 0))));
    return __fmaf_rn(x.scales[index / 2],
                     unit.steps.first * __int2float_rn(dot), sum);
  } else {
    const int4 a = x.quants[2 * index], b = x.quants[2 * index + 1];
    const int sums = x.sums[index];
    int low = -kZero<kType> * LowerSum(sums);
    low = Dot4(LowLevels<kType>(q.x, unit.upper, 0), a.x, low);
    low = Dot4(LowLevels<kType>(q.y, unit.upper, 1), a.y, low);
    low = Dot4(LowLevels<kType>(q.z, unit.upper, 2), a.z, low);
    low = Dot4(LowLevels<kType>(q.w, unit.upper, 3), a.w, low);
    int high = -kZero<kType> * UpperSum(sums);
    high = Dot4(HighLevels<kType>(q.x, unit.upper, 0), b.x, high);
    high = Dot4(HighLevels<kType>(q.y, unit.upper, 1), b.y, high);
    high = Dot4(HighLevels<kType>(q.z, unit.upper, 2), b.z, high);
    high = Dot4(HighLevels<kType>(q.w, unit.upper, 3), b.w, high);
    float dot;
    if constexpr (kType == DType::kQ6_K) {
      dot = __fmaf_rn(unit.steps.first, __int2float_rn(low),
                      unit.steps.second * __int2float_rn(high));
    } else {
      dot = unit.steps.first * __int2float_rn(low + high);
    }
    if constexpr (kIsAffineRow<kType>) {
      dot = __fmaf_rn(-unit.steps.offset,
                      __int2float_rn(LowerSum(sums) + UpperSum(sums)), dot);
    }
    return __fmaf_rn(x.scales[index], dot, sum);
  }
}

template <DType kType>
__device__ float FloatOf(unsigned bits) {
  return kType == DType::kBF16 ? BF16ToF32(static_cast<uint16_t>(bits))
                               : F16ToF32(static_cast<uint16_t>(bits));
}
template <DType kType>
__device__ void EightFloats(const uint4& q, float (&values)[8]) {
  values[0] = FloatOf<kType>(q.x & 0xffff);
  values[1] = FloatOf<kType>(q.x >> 16);
  values[2] = FloatOf<kType>(q.y & 0xffff);
  values[3] = FloatOf<kType>(q.y >> 16);
  values[4] = FloatOf<kType>(q.z & 0xffff);
  values[5] = FloatOf<kType>(q.z >> 16);
  values[6] = FloatOf<kType>(q.w & 0xffff);
  values[7] = FloatOf<kType>(q.w >> 16);
}

// Eight weights in F16 or BF16 with those of x from element 8 * index on, as
// far as there are any.
template <DType kType>
__device__ float AddFloats(const Unit<kType>& unit, const float* x, int n,
                           int index, float sum) {
  float w[8];
  EightFloats<kType>(unit.quants, w);
  const int begin = 8 * index;
  if (n % 4 == 0 && begin + 8 <= n) {  // rows of x are aligned
    const float4 a = *reinterpret_cast<const float4*>(x + begin);
    const float4 b = *reinterpret_cast<const float4*>(x + begin + 4);
    sum = __fmaf_rn(w[0], a.x, sum);
    sum = __fmaf_rn(w[1], a.y, sum);
    sum = __fmaf_rn(w[2], a.z, sum);
    sum = __fmaf_rn(w[3], a.w, sum);
    sum = __fmaf_rn(w[4], b.x, sum);
    sum = __fmaf_rn(w[5], b.y, sum);
    sum = __fmaf_rn(w[6], b.z, sum);
    return __fmaf_rn(w[7], b.w, sum);
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (begin + j < n) sum = __fmaf_rn(w[j], x[begin + j], sum);
  }
  return sum;
}

// For a whole warp; every lane gets the products of a row with x's rows, of
// which there are at most kT. Reads the row once.
template <DType kType, int kT>
__device__ void DotRow(const std::byte* row, const XRows& x,
                       float (&sums)[kT]) {
#pragma unroll
  for (int t = 0; t < kT; ++t) sums[t] = 0.0f;
  const int num_units = (x.n + kUnit<kType> - 1) / kUnit<kType>;
  for (int i = threadIdx.x % kWarpLanes; i < num_units; i += kWarpLanes) {
    Unit<kType> unit;
    LoadUnit<kType>(row, x.n, i, &unit);
#pragma unroll
    for (int t = 0; t < kT; ++t) {
      if (kT > 1 && t >= x.num_rows) break;
      if constexpr (kIsFloatRow<kType>) {
        sums[t] = AddFloats<kType>(
            unit, x.floats + static_cast<size_t>(t) * x.n, x.n, i, sums[t]);
      } else {
        sums[t] = AddDot<kType>(unit, XQuantsAt(x.quants, x.n, t), i, sums[t]);
      }
    }
  }
#pragma unroll
  for (int t = 0; t < kT; ++t) {
    if (kT > 1 && t >= x.num_rows) break;
    sums[t] = WarpSum(sums[t]);
  }
}

// The eight weights of a row that go with its word `word`: elements
// ColumnOf(word, 0 to 7). There are (n + 7) / 8 words.
template <DType kType>
__device__ int ColumnOf(int word, int j) {
  if (kIsFloatRow<kType> || kType == DType::kQ8_0) return 8 * word + j;
  return word / 4 * 32 + word % 4 * 4 + (j < 4 ? j : j + 12);
}
template <DType kType>
__device__ void LoadEight(const std::byte* row, int n, int word,
                          float (&values)[8]) {
  if constexpr (kIsFloatRow<kType>) {
    const uint4 q = ArrayAt<uint4>(row, 0)[word];
    EightFloats<kType>(q, values);
  } else if constexpr (kType == DType::kQ8_0) {
    const uint2 q = ArrayAt<uint2>(row, 0)[word];
    const float d = F16ToF32(ArrayAt<uint16_t>(row, n)[word / 4]);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      values[j] = d * __int2float_rn(static_cast<int8_t>(q.x >> (8 * j)));
      values[j + 4] = d * __int2float_rn(static_cast<int8_t>(q.y >> (8 * j)));
    }
  } else {
    const int unit = word / 4, k = word % 4;
    const unsigned q = ArrayAt<unsigned>(row, 0)[word];
    const UpperBits upper = LoadUpperBits<kType>(row, n, unit);
    const Steps steps = LoadSteps<kType>(row, n, unit);
    const unsigned low = LowLevels<kType>(q, upper, k);
    const unsigned high = HighLevels<kType>(q, upper, k);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int a = static_cast<int>(low >> (8 * j) & 0xff) - kZero<kType>;
      const int b = static_cast<int>(high >> (8 * j) & 0xff) - kZero<kType>;
      values[j] = steps.first * __int2float_rn(a);
      values[j + 4] = steps.second * __int2float_rn(b);
      if constexpr (kIsAffineRow<kType>) {
        values[j] -= steps.offset;
        values[j + 4] -= steps.offset;
      }
    }
  }
}

// Calls launch.operator()<type, kT>() with the largest number of rows that the
// kernel has to take. Requires CanLaunch(dtype).
template <DType kType, typename Call>
void ForRows(uint32_t num_rows, const Call& call) {
  if (num_rows == 1) return call.template operator()<kType, 1>();
  call.template operator()<kType, int{kernels::kDeviceRows}>();
}
template <typename Call>
void ForTypeAndRows(DType dtype, uint32_t num_rows, const Call& call) {
  switch (dtype) {
    case DType::kF16:
      return ForRows<DType::kF16>(num_rows, call);
    case DType::kBF16:
      return ForRows<DType::kBF16>(num_rows, call);
    case DType::kQ8_0:
      return ForRows<DType::kQ8_0>(num_rows, call);
    case DType::kQ4_0:
      return ForRows<DType::kQ4_0>(num_rows, call);
    case DType::kQ4_K:
      return ForRows<DType::kQ4_K>(num_rows, call);
    case DType::kQ5_K:
      return ForRows<DType::kQ5_K>(num_rows, call);
    case DType::kQ6_K:
      return ForRows<DType::kQ6_K>(num_rows, call);
    default:
      return;
  }
}

// Whether products with weights of a type take x as it is.
inline bool TakesFloats(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

__host__ __device__ inline int DivideUp(int a, int b) {
  return (a + b - 1) / b;
}

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_DOT_ROWS_H_
