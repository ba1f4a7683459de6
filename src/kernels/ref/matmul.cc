#include <algorithm>
#include <cstring>

#include "kernels/activation_row.h"
#include "kernels/ref/ref.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline::kernels::ref {
namespace {

template <typename Element>
Element LoadElement(const std::byte* row, size_t idx) {
  Element element;
  std::memcpy(&element, row + idx * sizeof(element), sizeof(element));
  return element;
}

struct F32Weights {
  static float At(const std::byte* row, size_t idx) {
    return LoadElement<float>(row, idx);
  }
};
struct F16Weights {
  static float At(const std::byte* row, size_t idx) {
    return F16ToF32(LoadElement<uint16_t>(row, idx));
  }
};
struct BF16Weights {
  static float At(const std::byte* row, size_t idx) {
    return BF16ToF32(LoadElement<uint16_t>(row, idx));
  }
};

template <typename Weights>
void FloatMatMul(const MatMulArgs& args) {
  for (size_t r = 0; r < args.num_rows; ++r) {
    const std::byte* row = args.weights + r * args.row_bytes;
    for (size_t t = 0; t < args.num_tokens; ++t) {
      const std::byte* x = args.x + t * args.x_stride_bytes;
      double sum = 0;
      for (size_t i = 0; i < args.n; ++i) {
        sum +=
            static_cast<double>(Weights::At(row, i)) * LoadElement<float>(x, i);
      }
      args.out[t * args.out_stride + r] = static_cast<float>(sum);
    }
  }
}

// Sixteen consecutive weights: scale * q[i] + offset. Every block type is a
// sequence of these; all scales and offsets are exact in float.
struct Group {
  float scale;
  float offset;
  int8_t q[16];
};

void Unpack(const BlockQ8_0& block, Group* groups) {
  for (int i = 0; i < 32; ++i) {
    groups[i / 16].scale = F16ToF32(block.d);
    groups[i / 16].offset = 0;
    groups[i / 16].q[i % 16] = block.qs[i];
  }
}

// The blocks of 32 with 4-bit quants, low nibbles first. `high` holds a fifth
// bit per element, or zeros.
void UnpackNibbles(const uint8_t* qs, uint32_t high, int bias, float scale,
                   float offset, Group* groups) {
  for (int i = 0; i < 32; ++i) {
    const int nibble = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
    const int fifth = static_cast<int>(high >> i & 1) << 4;
    groups[i / 16].scale = scale;
    groups[i / 16].offset = offset;
    groups[i / 16].q[i % 16] = static_cast<int8_t>((nibble | fifth) - bias);
  }
}

uint32_t LittleEndian(const uint8_t bytes[4]) {
  return bytes[0] | bytes[1] << 8 | bytes[2] << 16 |
         static_cast<uint32_t>(bytes[3]) << 24;
}

void Unpack(const BlockQ4_0& block, Group* groups) {
  UnpackNibbles(block.qs, 0, 8, F16ToF32(block.d), 0, groups);
}
void Unpack(const BlockQ4_1& block, Group* groups) {
  UnpackNibbles(block.qs, 0, 0, F16ToF32(block.d), F16ToF32(block.m), groups);
}
void Unpack(const BlockQ5_0& block, Group* groups) {
  UnpackNibbles(block.qs, LittleEndian(block.qh), 16, F16ToF32(block.d), 0,
                groups);
}
void Unpack(const BlockQ5_1& block, Group* groups) {
  UnpackNibbles(block.qs, LittleEndian(block.qh), 0, F16ToF32(block.d),
                F16ToF32(block.m), groups);
}

// Q4_K, or Q5_K with `qh`: eight sub-blocks of two groups.
template <typename Block>
void UnpackK45(const Block& block, const uint8_t* qh, Group* groups) {
  const KScales scales = UnpackScales(block.scales);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int sub = i / 32;
    const int lane = i % 32;
    const uint8_t packed = block.qs[sub / 2 * 32 + lane];
    const int nibble = sub % 2 == 0 ? packed & 15 : packed >> 4;
    const int fifth = qh == nullptr ? 0 : (qh[lane] >> sub & 1) << 4;
    Group& group = groups[i / 16];
    group.scale = F16ToF32(block.d) * scales.scale[sub];
    group.offset = -F16ToF32(block.dmin) * scales.min[sub];
    group.q[i % 16] = static_cast<int8_t>(nibble | fifth);
  }
}

void Unpack(const BlockQ4_K& block, Group* groups) {
  UnpackK45(block, nullptr, groups);
}
void Unpack(const BlockQ5_K& block, Group* groups) {
  UnpackK45(block, block.qh, groups);
}

void Unpack(const BlockQ6_K& block, Group* groups) {
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const int lane = i % 32;
    const uint8_t packed = block.ql[64 * half + lane + 32 * (quarter & 1)];
    const int low = quarter < 2 ? packed & 15 : packed >> 4;
    const int high = block.qh[32 * half + lane] >> (2 * quarter) & 3;
    Group& group = groups[i / 16];
    group.scale = F16ToF32(block.d) * block.scales[i / 16];
    group.offset = 0;
    group.q[i % 16] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

// sum over 16 of (scale * q + offset) * (d_a * q_a), integer inside: the sums
// are exact, so SIMD kernels differ by the order of float additions only.
double DotGroup(const Group& group, const ActivationRow& activation,
                size_t group_idx) {
  int dot = 0;
  for (size_t i = 0; i < 16; ++i) {
    dot += group.q[i] * activation.q[group_idx * 16 + i];
  }
  return static_cast<double>(activation.d[group_idx / 2]) *
         (static_cast<double>(group.scale) * dot +
          static_cast<double>(group.offset) * activation.sum[group_idx]);
}

// Tokens that share the unpacking of a block.
constexpr size_t kTokens = 16;

template <typename Block, size_t kElems>
void QuantRow(const MatMulArgs& args, size_t r, size_t first_token,
              size_t num_tokens) {
  constexpr size_t kGroups = kElems / 16;
  double sum[kTokens] = {};
  for (size_t b = 0; b < args.n / kElems; ++b) {
    const auto block = LoadElement<Block>(args.weights + r * args.row_bytes, b);
    Group groups[kGroups];
    Unpack(block, groups);
    for (size_t t = 0; t < num_tokens; ++t) {
      // ActivationRowAt serves readers and writers; nothing is written here.
      const ActivationRow activation =
          ActivationRowAt(const_cast<std::byte*>(args.x) +
                              (first_token + t) * args.x_stride_bytes,
                          args.n);
      for (size_t g = 0; g < kGroups; ++g) {
        sum[t] += DotGroup(groups[g], activation, b * kGroups + g);
      }
    }
  }
  for (size_t t = 0; t < num_tokens; ++t) {
    args.out[(first_token + t) * args.out_stride + r] =
        static_cast<float>(sum[t]);
  }
}

template <typename Block, size_t kElems>
void QuantMatMul(const MatMulArgs& args) {
  for (size_t t = 0; t < args.num_tokens; t += kTokens) {
    for (size_t r = 0; r < args.num_rows; ++r) {
      QuantRow<Block, kElems>(args, r, t,
                              std::min(kTokens, args.num_tokens - t));
    }
  }
}

}  // namespace

MatMulFn MatMulFor(DType weight_dtype) {
  switch (weight_dtype) {
    case DType::kF32:
      return FloatMatMul<F32Weights>;
    case DType::kF16:
      return FloatMatMul<F16Weights>;
    case DType::kBF16:
      return FloatMatMul<BF16Weights>;
    case DType::kQ8_0:
      return QuantMatMul<BlockQ8_0, kBlock>;
    case DType::kQ4_0:
      return QuantMatMul<BlockQ4_0, kBlock>;
    case DType::kQ4_1:
      return QuantMatMul<BlockQ4_1, kBlock>;
    case DType::kQ5_0:
      return QuantMatMul<BlockQ5_0, kBlock>;
    case DType::kQ5_1:
      return QuantMatMul<BlockQ5_1, kBlock>;
    case DType::kQ4_K:
      return QuantMatMul<BlockQ4_K, kSuperBlock>;
    case DType::kQ5_K:
      return QuantMatMul<BlockQ5_K, kSuperBlock>;
    case DType::kQ6_K:
      return QuantMatMul<BlockQ6_K, kSuperBlock>;
    default:
      return nullptr;
  }
}

}  // namespace thermocline::kernels::ref
