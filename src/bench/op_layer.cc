#include "bench/op_layer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "tensor/blocks.h"
#include "tensor/float16.h"

namespace thermocline::bench {
namespace {

constexpr float kScale = 1.0f / 64;
constexpr float kInputScale = 1.0f / 128;
constexpr size_t kTableValues = 1 << 16;
constexpr size_t kMostExtent = 1 << 20;

// Values are -8 to 7, those of four bits.
void EncodeRow(DType dtype, const int8_t* values, size_t n, std::byte* out) {
  const uint16_t scale = F32ToF16(kScale);
  for (size_t i = 0; i < n; i += InfoOf(dtype).block_elems) {
    std::byte* to = out + BytesOf(dtype, i);
    if (dtype == DType::kF16) {
      const uint16_t half = F32ToF16(kScale * static_cast<float>(values[i]));
      std::memcpy(to, &half, sizeof(half));
    } else if (dtype == DType::kQ8_0) {
      BlockQ8_0 block = {.d = scale, .qs = {}};
      std::copy_n(values + i, kBlock, block.qs);
      std::memcpy(to, &block, sizeof(block));
    } else {
      BlockQ4_0 block = {.d = scale, .qs = {}};
      for (size_t j = 0; j < kBlock / 2; ++j) {
        const auto low = static_cast<unsigned>(values[i + j] + 8);
        const auto high = static_cast<unsigned>(values[i + j + kBlock / 2] + 8);
        block.qs[j] = static_cast<uint8_t>(low | high << 4);
      }
      std::memcpy(to, &block, sizeof(block));
    }
  }
}

double MostNmse(DType dtype, bool is_dense) {
  if (IsFloat(dtype) || (dtype == DType::kQ8_0 && !is_dense)) return 1e-8;
  // Coefficients of Q4_0 are rounded in groups of rows on the host.
  return 1e-4;
}

}  // namespace

size_t OpShape::num_padded() const {
  return (num_neurons + kBlock - 1) / kBlock * kBlock;
}

Status CheckShape(const OpShape& shape) {
  constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ8_0, DType::kF16};
  if (std::ranges::find(kTypes, shape.dtype) == std::end(kTypes)) {
    return Fail(ErrorCode::kInvalidArgument,
                "weights of {}: Q4_0, Q8_0 and F16 can be measured",
                NameOf(shape.dtype));
  }
  for (const auto& [what, extent] :
       {std::pair{"width", shape.width}, {"neurons", shape.num_neurons}}) {
    if (extent > 0 && extent <= kMostExtent) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "{} of {}: 1 to {} can be measured", what, extent, kMostExtent);
  }
  const size_t block = InfoOf(shape.dtype).block_elems;
  if (shape.width % block == 0) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "a width of {} is no multiple of {}, {}'s block", shape.width,
              block, NameOf(shape.dtype));
}

OpLayer::OpLayer(const OpShape& shape, uint64_t seed)
    : shape_(shape),
      table_(kTableValues + shape.width),
      zeros_(shape.width),
      x_quants_(kRows * shape.width) {
  Random random(seed);
  for (int8_t& value : table_) {
    value = static_cast<int8_t>(static_cast<int>(random.Below(16)) - 8);
  }
  for (std::vector<uint32_t>& begins : begins_) {
    for (size_t i = 0; i < shape.num_neurons; ++i) {
      begins.push_back(static_cast<uint32_t>(random.Below(kTableValues)));
    }
  }
  for (size_t i = 0; i < x_quants_.size(); ++i) {
    // The first of a block is the largest that 8 bits hold: it sets the scale.
    const bool is_first = i % shape.width % kBlock == 0;
    const int value =
        is_first ? 127 : static_cast<int>(random.Below(255)) - 127;
    x_quants_[i] = static_cast<int8_t>(value);
    x_.push_back(kInputScale * static_cast<float>(value));
  }
}

const int8_t* OpLayer::Values(OpPart part, size_t neuron) const {
  if (neuron >= shape_.num_neurons) return zeros_.data();
  return table_.data() + begins_[static_cast<size_t>(part)][neuron];
}

void OpLayer::WriteRow(OpPart part, size_t neuron, std::byte* out) const {
  EncodeRow(shape_.dtype, Values(part, neuron), shape_.width, out);
}

void OpLayer::WriteDownRow(size_t c, std::byte* out) const {
  std::vector<int8_t> values(shape_.num_padded());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = Values(OpPart::kDown, i)[c];
  }
  EncodeRow(shape_.dtype, values.data(), values.size(), out);
}

const std::vector<double>& OpLayer::Hidden(size_t row) {
  std::vector<double>& hidden = hidden_[row];
  if (!hidden.empty()) return hidden;
  const int8_t* x = x_quants_.data() + row * shape_.width;
  const auto dot = [&](OpPart part, size_t neuron) {
    const int8_t* values = Values(part, neuron);
    int64_t total = 0;
    // Parts that 32 bits hold.
    for (size_t begin = 0; begin < shape_.width; begin += 1 << 16) {
      const size_t end = std::min<size_t>(begin + (1 << 16), shape_.width);
      int32_t sum = 0;
      for (size_t c = begin; c < end; ++c) sum += values[c] * x[c];
      total += sum;
    }
    return static_cast<double>(total) * kScale * kInputScale;
  };
  for (size_t i = 0; i < shape_.num_neurons; ++i) {
    const double gate = dot(OpPart::kGate, i);
    hidden.push_back(gate / (1.0 + std::exp(-gate)) * dot(OpPart::kUp, i));
  }
  return hidden;
}

Status OpLayer::Check(std::string_view what, std::span<const uint32_t> ids,
                      size_t row, bool is_dense, std::span<const float> out) {
  const std::vector<double>& hidden = Hidden(row);
  std::vector<double> want(shape_.width);
  for (const uint32_t i : ids) {
    const double coef = hidden[i] * kScale;
    const int8_t* values = Values(OpPart::kDown, i);
    for (size_t c = 0; c < want.size(); ++c) want[c] += coef * values[c];
  }
  double error = 0.0, power = 0.0;
  for (size_t c = 0; c < want.size(); ++c) {
    const double d = static_cast<double>(out[c]) - want[c];
    error += d * d;
    power += want[c] * want[c];
  }
  const double most = MostNmse(shape_.dtype, is_dense);
  if (error <= most * power) return {};  // not what is NaN
  return Fail(ErrorCode::kCorrupt,
              "{}: a wrong result: row {} is off by an NMSE of {:.3g}, at most "
              "{:.0e} is rounding; nothing is timed",
              what, row, error / power, most);
}

}  // namespace thermocline::bench
