#include "device/sim/sim_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>

#include "base/math.h"
#include "kernels/activation_row.h"

namespace thermocline::device {

std::byte* SimScratch::Bytes(size_t num_bytes) {
  if (num_bytes > size_) {
    data_.reset();
    size_ = std::max(num_bytes, 2 * size_);
    data_.reset(
        static_cast<std::byte*>(::operator new(size_, std::align_val_t{64})));
  }
  return data_.get();
}

Result<SimCounts> SimOps::Compute(const kernels::DeviceOp& op) {
  return std::visit([this](const auto& args) { return Do(args); }, op);
}

Result<SimCounts> SimOps::Do(const kernels::NormArgs& args) {
  for (size_t r = 0; r < args.num_rows; ++r) {
    const float* x = args.x + r * args.n;
    float* out = args.out + r * args.n;
    if (args.kind == NormKind::kLayer) {
      kernels_.layer_norm(x, args.weight, args.bias, args.epsilon, args.n, out);
      continue;
    }
    kernels_.rms_norm(x, args.weight, args.epsilon, args.n, out);
    if (args.bias != nullptr) kernels_.add(args.bias, args.n, out);
  }
  return SimCounts{};
}

SimInput SimOps::InputFor(DType weights, const float* x, size_t n,
                          size_t num_tokens) {
  const bool is_float = IsFloat(weights);
  const size_t stride = is_float ? RoundUp(n * sizeof(float), size_t{64})
                                 : kernels::ActivationRowBytes(n);
  std::byte* rows = input_.Bytes(num_tokens * stride);
  for (size_t t = 0; t < num_tokens; ++t) {
    if (is_float) {
      std::memcpy(rows + t * stride, x + t * n, n * sizeof(float));
    } else {
      kernels_.quantize_activations(x + t * n, n, rows + t * stride);
    }
  }
  return {.data = rows, .stride_bytes = stride};
}

void SimOps::Multiply(const kernels::DeviceMatrix& weights, const float* bias,
                      const float* x, size_t num_tokens, float* out) {
  const SimInput input = InputFor(weights.dtype, x, weights.n, num_tokens);
  kernels_.matmul(weights.dtype)({.weights = weights.rows,
                                  .row_bytes = weights.row_bytes,
                                  .num_rows = weights.num_rows,
                                  .n = weights.n,
                                  .x = input.data,
                                  .x_stride_bytes = input.stride_bytes,
                                  .num_tokens = num_tokens,
                                  .out = out,
                                  .out_stride = weights.num_rows});
  if (bias == nullptr) return;
  for (size_t t = 0; t < num_tokens; ++t) {
    kernels_.add(bias, weights.num_rows, out + t * weights.num_rows);
  }
}

Result<SimCounts> SimOps::Do(const kernels::GemvArgs& args) {
  const size_t count = size_t{args.num_tokens} * args.weights.num_rows;
  float* out = args.adds ? sums_.Floats(count) : args.out;
  Multiply(args.weights, args.bias, args.x, args.num_tokens, out);
  if (args.adds) kernels_.add(out, count, args.out);
  return SimCounts{};
}

Result<SimCounts> SimOps::Do(const kernels::RopeArgs& args) {
  for (size_t t = 0; t < args.num_tokens; ++t) {
    kernels_.rope(args.heads + t * args.num_heads * args.head_width,
                  args.num_heads, args.head_width, args.kind,
                  args.cos + t * args.num_pairs, args.sin + t * args.num_pairs,
                  args.num_pairs);
  }
  return SimCounts{};
}

Result<SimCounts> SimOps::Do(const kernels::ActivateArgs& args) {
  kernels_.activate(args.activation, args.threshold, args.gate, args.up,
                    args.count, args.out);
  return SimCounts{};
}

Result<SimCounts> SimOps::Do(const kernels::AddRowsScaledArgs& args) {
  for (size_t t = 0; t < args.num_tokens; ++t) {
    const float factor = args.factors == nullptr ? 1.0f : args.factors[t];
    for (size_t i = t * args.n; i < (t + 1) * args.n; ++i) {
      args.out[i] += factor * args.x[i];
    }
  }
  return SimCounts{};
}

Result<SimCounts> SimOps::Do(const kernels::ArgMaxArgs& args) {
  for (size_t t = 0; t < args.num_tokens; ++t) {
    const float* x = args.x + t * args.n;
    const float* end = x + args.n;
    const float* largest =
        std::find_if(x, end, [](float v) { return std::isnan(v); });
    if (largest == end) largest = std::max_element(x, end);
    args.out[t] = static_cast<uint32_t>(largest - x);
  }
  return SimCounts{};
}

}  // namespace thermocline::device
