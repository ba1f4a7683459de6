#include "synth/codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline::synth {
namespace {

constexpr float kQ4KCentre = 7.5f;  // no code is the middle of 0 to 15
constexpr int kQ4Peak = 7;

int BitsOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ4_K:
      return 4;
    case DType::kQ6_K:
      return 6;
    default:
      return 8;
  }
}

template <typename Block>
void Store(const Block& block, std::byte* out) {
  std::memcpy(out, &block, sizeof(block));
}

void EncodeQ4_0(uint16_t step, const uint8_t* codes, std::byte* out) {
  BlockQ4_0 block = {.d = step, .qs = {}};
  for (size_t j = 0; j < 16; ++j) {
    block.qs[j] = static_cast<uint8_t>(codes[j] | codes[j + 16] << 4);
  }
  Store(block, out);
}

void EncodeQ8_0(uint16_t step, const uint8_t* codes, std::byte* out) {
  BlockQ8_0 block = {.d = step, .qs = {}};
  for (size_t j = 0; j < 32; ++j) {
    block.qs[j] = static_cast<int8_t>(codes[j] - 128);
  }
  Store(block, out);
}

// All sub-blocks with scale and minimum 1.
void EncodeQ4_K(uint16_t step, const uint8_t* codes, std::byte* out) {
  BlockQ4_K block = {.d = step,
                     .dmin = F32ToF16(kQ4KCentre * F16ToF32(step)),
                     .scales = {1, 1, 1, 1, 1, 1, 1, 1, 0x11, 0x11, 0x11, 0x11},
                     .qs = {}};
  for (size_t i = 0; i < 128; ++i) {
    const size_t low = i / 32 * 64 + i % 32;
    block.qs[i] = static_cast<uint8_t>(codes[low] | codes[low + 32] << 4);
  }
  Store(block, out);
}

void EncodeQ6_K(uint16_t step, const uint8_t* codes, std::byte* out) {
  BlockQ6_K block = {.ql = {}, .qh = {}, .scales = {}, .d = step};
  std::fill_n(block.scales, 16, int8_t{1});
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128;
    const size_t group = i % 128 / 32;
    const size_t lane = i % 32;
    const unsigned low = codes[i] & 15u;
    const unsigned high = static_cast<unsigned>(codes[i]) >> 4;
    uint8_t& ql = block.ql[64 * half + 32 * (group & 1) + lane];
    uint8_t& qh = block.qh[32 * half + lane];
    ql = static_cast<uint8_t>(ql | (group < 2 ? low : low << 4));
    qh = static_cast<uint8_t>(qh | high << (2 * group));
  }
  Store(block, out);
}

void EncodeFloats(DType dtype, float step, std::span<const uint8_t> codes,
                  std::byte* out) {
  for (const uint8_t code : codes) {
    const float value = step * static_cast<float>(code - 128);
    if (dtype == DType::kF32) {
      std::memcpy(out, &value, sizeof(value));
      out += sizeof(value);
    } else {
      const uint16_t half = F32ToF16(value);
      std::memcpy(out, &half, sizeof(half));
      out += sizeof(half);
    }
  }
}

void EncodeSymmetricQ4_0(std::span<const float> values, std::byte* out) {
  uint8_t codes[kBlock];
  for (size_t i = 0; i < values.size(); i += kBlock) {
    float peak = 0.0f;
    for (size_t j = 0; j < kBlock; ++j) {
      peak = std::max(peak, std::abs(values[i + j]));
    }
    const uint16_t step = F32ToF16(peak / kQ4Peak);
    const float inverse = peak > 0.0f ? kQ4Peak / peak : 0.0f;
    for (size_t j = 0; j < kBlock; ++j) {
      const float steps = std::floor(values[i + j] * inverse + 0.5f);
      codes[j] = static_cast<uint8_t>(
          8 + std::clamp(static_cast<int>(steps), -kQ4Peak, kQ4Peak));
    }
    EncodeQ4_0(step, codes, out);
    out += sizeof(BlockQ4_0);
  }
}

}  // namespace

bool CanSynthesize(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

void FillCodes(DType dtype, Random& random, std::span<uint8_t> codes) {
  TC_CHECK(CanSynthesize(dtype));
  const int bits = BitsOf(dtype);
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  // Code 0 has no opposite: it counts as the centre.
  const auto replaced = static_cast<uint8_t>(
      dtype == DType::kQ4_K ? 0 : uint8_t{1} << (bits - 1));
  for (size_t i = 0; i < codes.size();) {
    uint64_t word = random.Next();
    const size_t end = std::min(codes.size(), i + 8);
    for (; i < end; ++i, word >>= 8) {
      const auto code = static_cast<uint8_t>(word & mask);
      codes[i] = code == 0 ? replaced : code;
    }
  }
}

double CodeDeviation(DType dtype) {
  TC_CHECK(CanSynthesize(dtype));
  const int num_codes = 1 << BitsOf(dtype);
  const bool has_middle = dtype != DType::kQ4_K;
  const double centre = has_middle ? num_codes / 2 : double{kQ4KCentre};
  double squares = 0.0;
  for (int code = has_middle ? 1 : 0; code < num_codes; ++code) {
    squares += (code - centre) * (code - centre);
  }
  return std::sqrt(squares / num_codes);
}

void EncodeCodes(DType dtype, float step, std::span<const uint8_t> codes,
                 std::byte* out) {
  TC_CHECK(CanSynthesize(dtype));
  if (IsFloat(dtype)) return EncodeFloats(dtype, step, codes, out);
  const DTypeInfo& info = InfoOf(dtype);
  TC_CHECK(codes.size() % info.block_elems == 0);
  const uint16_t half = F32ToF16(step);
  for (size_t i = 0; i < codes.size(); i += info.block_elems) {
    switch (dtype) {
      case DType::kQ4_0:
        EncodeQ4_0(half, &codes[i], out);
        break;
      case DType::kQ8_0:
        EncodeQ8_0(half, &codes[i], out);
        break;
      case DType::kQ4_K:
        EncodeQ4_K(half, &codes[i], out);
        break;
      default:
        EncodeQ6_K(half, &codes[i], out);
    }
    out += info.block_bytes;
  }
}

void EncodeRow(DType dtype, std::span<const float> values, std::byte* out) {
  TC_CHECK(CanSynthesize(dtype) &&
           values.size() % InfoOf(dtype).block_elems == 0);
  if (dtype == DType::kQ4_0) {
    EncodeSymmetricQ4_0(values, out);
  } else {
    QuantizeRow(dtype, values, out);
  }
}

double SignGain(DType dtype) {
  const size_t count = std::max<size_t>(InfoOf(dtype).block_elems, kBlock);
  std::vector<float> given(count);
  for (size_t j = 0; j < count; ++j) given[j] = j % 2 == 0 ? 1.0f : -1.0f;
  std::vector<std::byte> bytes(BytesOf(dtype, count));
  EncodeRow(dtype, given, bytes.data());
  std::vector<float> stored(count);
  DequantizeRow(dtype, bytes.data(), stored);
  double squares = 0.0;
  for (const float x : stored) squares += static_cast<double>(x) * x;
  return squares / static_cast<double>(count);
}

}  // namespace thermocline::synth
