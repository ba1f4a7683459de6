#include "engine/ffn/turned_down.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/math.h"
#include "tensor/codec.h"

namespace thermocline::engine {
namespace {

// Columns that are turned at once: whole blocks of every type.
constexpr size_t kBlockColumns = 256;
constexpr size_t kFloatColumns = 64;
// Neurons that are decoded at once: a block of what they become.
constexpr size_t kNeurons = 32;

DType TurnedType(DType dtype) {
  return IsFloat(dtype) ? DType::kF32 : DType::kQ8_0;
}

size_t ColumnsOf(DType dtype) {
  return IsFloat(dtype) ? kFloatColumns : kBlockColumns;
}

// Columns [first, first + count) of down_t [F, D] as rows of F.
void Turn(const Compute& compute, const TensorView& down_t, size_t first,
          size_t count, std::byte* out) {
  const size_t num_neurons = down_t.shape.num_rows();
  const DType turned = TurnedType(down_t.dtype);
  const size_t row_bytes = BytesOf(turned, num_neurons);
  float decoded[kBlockColumns];
  alignas(64) float columns[kBlockColumns][kNeurons];
  for (size_t n = 0; n < num_neurons; n += kNeurons) {
    const size_t num_here = std::min(kNeurons, num_neurons - n);
    for (size_t i = 0; i < num_here; ++i) {
      DequantizeRow(down_t.dtype,
                    down_t.row(n + i) + BytesOf(down_t.dtype, first),
                    std::span(decoded).first(count));
      for (size_t c = 0; c < count; ++c) columns[c][i] = decoded[c];
    }
    std::byte* place = out + BytesOf(turned, n);
    for (size_t c = 0; c < count; ++c) {
      compute.kernels->store_row(turned, columns[c], num_here,
                                 place + c * row_bytes);
    }
  }
}

}  // namespace

uint64_t TurnedBytes(uint64_t num_neurons) {
  // The limits of model::Config keep both far below 2^64.
  return RoundUp<uint64_t>(
      std::max(kFloatColumns * num_neurons * sizeof(float),
               kBlockColumns *
                   BytesOf(DType::kQ8_0, RoundUp<uint64_t>(num_neurons, 32))),
      64);
}

bool CanTurnDown(const Compute& compute, const Scratch& scratch,
                 const TensorView& down_t, size_t num_tokens) {
  const size_t batch_tokens =
      compute.batch_tokens > 0 ? compute.batch_tokens : num_tokens;
  return scratch.turned_bytes > 0 &&
         compute.kernels->batch_for(batch_tokens) != nullptr &&
         (IsFloat(down_t.dtype) || down_t.shape.num_rows() % 32 == 0);
}

void MultiplyTurned(const Compute& compute, const Scratch& scratch,
                    const TensorView& down_t, const TensorView& bias,
                    size_t num_tokens) {
  const size_t num_neurons = down_t.shape.num_rows();
  TC_CHECK(TurnedBytes(num_neurons) <= scratch.turned_bytes);
  TensorView weight;
  weight.dtype = TurnedType(down_t.dtype);
  weight.shape = {.ne = {num_neurons, down_t.shape.ne[0], 1, 1}, .rank = 2};
  auto make = [&](size_t first, size_t count, int worker_idx) {
    std::byte* rows =
        scratch.turned + static_cast<size_t>(worker_idx) * scratch.turned_bytes;
    Turn(compute, down_t, first, count, rows);
    return static_cast<const std::byte*>(rows);
  };
  const std::array<Product, 1> down = {
      {{.weight = weight,
        .bias = bias,
        .out = scratch.delta,
        .make = RowsMaker::Of(make, ColumnsOf(down_t.dtype))}}};
  MultiplyAll(compute, scratch.up, num_tokens, down);
}

}  // namespace thermocline::engine
