#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/activation_row.h"
#include "kernels/ref/ref.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline::kernels::ref {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000;

// The bits of |x|. As integers they order like the values, with NaN above
// infinity: their maximum keeps a NaN, which std::max of floats may lose.
uint32_t AbsBits(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffff; }

// One block of 32. A block with a non-finite element gets a non-finite scale
// and zeros, so that every product with it is NaN.
void QuantizeBlock(const float* x, float* d, int8_t* q) {
  uint32_t max_bits = 0;
  for (int i = 0; i < 32; ++i) max_bits = std::max(max_bits, AbsBits(x[i]));
  *d = std::bit_cast<float>(max_bits) / 127.0f;
  const bool is_regular = max_bits < kInfinityBits && *d > 0;
  for (int i = 0; i < 32; ++i) {
    // The clamp matters when d is subnormal and so inexact.
    q[i] = is_regular ? static_cast<int8_t>(std::clamp(
                            std::nearbyint(x[i] / *d), -127.0f, 127.0f))
                      : int8_t{0};
  }
}

// The comparisons are such that NaN stays NaN.
double Apply(Activation activation, double threshold, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu: {
      constexpr double kSqrt2OverPi = 0.79788456080286535588;
      return 0.5 * x *
             (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
    }
    case Activation::kFatRelu:
      return x < threshold ? 0 : x;
    case Activation::kRelu:
    case Activation::kDRelu:
      return x < 0 ? 0 : x;
    case Activation::kRelu2:
      return x < 0 ? 0 : x * x;
  }
  return x;
}

}  // namespace

void QuantizeActivations(const float* x, size_t n, std::byte* out) {
  const ActivationRow row = ActivationRowAt(out, n);
  for (size_t b = 0; b < n / 32; ++b) {
    QuantizeBlock(x + b * 32, row.d + b, row.q + b * 32);
  }
  for (size_t g = 0; g < n / 16; ++g) {
    int sum = 0;
    for (size_t i = 0; i < 16; ++i) sum += row.q[g * 16 + i];
    row.sum[g] = static_cast<int16_t>(sum);
  }
}

void RmsNorm(const float* x, const float* weight, float eps, size_t n,
             float* out) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + eps);
  for (size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(x[i] * scale * weight[i]);
  }
}

void LayerNorm(const float* x, const float* weight, const float* bias,
               float eps, size_t n, float* out) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
  for (size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>((x[i] - mean) * scale * weight[i] +
                                (bias == nullptr ? 0 : bias[i]));
  }
}

void Rope(float* heads, size_t num_heads, size_t head_width, RopeKind kind,
          const float* cos, const float* sin, size_t num_pairs) {
  if (kind == RopeKind::kNone) return;
  const bool is_neox = kind == RopeKind::kNeox;
  for (size_t h = 0; h < num_heads; ++h) {
    for (size_t i = 0; i < num_pairs; ++i) {
      float* first = heads + h * head_width + (is_neox ? i : 2 * i);
      float* second = first + (is_neox ? num_pairs : 1);
      const double a = *first;
      const double b = *second;
      *first = static_cast<float>(a * cos[i] - b * sin[i]);
      *second = static_cast<float>(a * sin[i] + b * cos[i]);
    }
  }
}

void Activate(Activation activation, float threshold, const float* gate,
              const float* up, size_t n, float* out) {
  TC_DCHECK(gate != nullptr || activation != Activation::kDRelu);
  for (size_t i = 0; i < n; ++i) {
    if (gate == nullptr) {
      out[i] = static_cast<float>(Apply(activation, threshold, up[i]));
      continue;
    }
    const double factor = activation == Activation::kDRelu
                              ? Apply(Activation::kRelu, 0, up[i])
                              : up[i];
    out[i] = static_cast<float>(Apply(activation, threshold, gate[i]) * factor);
  }
}

void Add(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] += x[i];
}

// A cache must not hide what its type cannot hold: NaN shows in every use.
// (With an infinite key the score may be -infinity, of which attention sees
// nothing.)
void StoreRow(DType dtype, const float* x, size_t n, std::byte* out) {
  QuantizeRow(dtype, {x, n}, out);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const uint16_t not_a_number = F32ToF16(nan);
  if (dtype != DType::kQ8_0) {
    for (size_t i = 0; i < n; ++i) {
      if (dtype == DType::kF32 && std::isinf(x[i])) {
        std::memcpy(out + i * sizeof(nan), &nan, sizeof(nan));
      } else if (dtype == DType::kF16 && std::isinf(F16ToF32(F32ToF16(x[i])))) {
        std::memcpy(out + i * sizeof(not_a_number), &not_a_number,
                    sizeof(not_a_number));
      }
    }
    return;
  }
  // The codec, made for weights, clamps what a block cannot hold.
  constexpr float kLargest = 127.0f * 65504.0f;
  for (size_t b = 0; b < n / kBlock; ++b) {
    const float* block = x + b * kBlock;
    const bool fits = std::all_of(
        block, block + kBlock, [](float v) { return std::abs(v) <= kLargest; });
    if (fits) continue;
    std::memcpy(out + b * sizeof(BlockQ8_0), &not_a_number,
                sizeof(not_a_number));
  }
}

bool AllFinite(const float* x, size_t n) {
  return std::all_of(x, x + n,
                     [](float v) { return AbsBits(v) < kInfinityBits; });
}

}  // namespace thermocline::kernels::ref
