#include "npu/static_kv.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/math.h"
#include "npu/block.h"
#include "npu/graph.h"

namespace thermocline::npu {
namespace {

constexpr uint16_t kF16Exponent = 0x7c00;  // of F16; all set: not finite

bool AllFiniteF16(std::span<const uint16_t> values) {
  bool are_finite = true;  // without a way out: so it becomes vectors
  for (const uint16_t value : values) {
    are_finite &= (value & kF16Exponent) != kF16Exponent;
  }
  return are_finite;
}

void ZeroWhatIsNotFinite(std::span<uint16_t> values) {
  for (uint16_t& value : values) {
    if ((value & kF16Exponent) == kF16Exponent) value = 0;
  }
}

// Of one tensor of a layer.
uint64_t TensorBytes(size_t width, int64_t num_positions) {
  const auto num_elems =
      CheckedMul(uint64_t{width}, static_cast<uint64_t>(num_positions));
  constexpr uint64_t kMost = uint64_t{1} << 56;
  if (!num_elems || *num_elems > kMost) return kMost;
  return RoundUp(*num_elems * sizeof(uint16_t), uint64_t{Graph::kAlignment});
}

}  // namespace

KvWidths KvWidthsOf(const model::Config& config, size_t layer_idx) {
  const model::AttentionSpec& spec = config.layers[layer_idx].attention;
  return {.k = spec.num_kv_heads * spec.key_width,
          .v = spec.num_kv_heads * spec.value_width};
}

uint64_t StaticKvBytes(const model::Config& config, int64_t num_positions) {
  uint64_t sum = 0;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const KvWidths widths = KvWidthsOf(config, i);
    for (const size_t width : {widths.k, widths.v}) {
      sum = CheckedAdd(sum, TensorBytes(width, num_positions))
                .value_or(std::numeric_limits<uint64_t>::max());
    }
  }
  return sum;
}

Result<StaticKv> StaticKv::Create(const model::Config* config,
                                  int64_t num_positions) {
  StaticKv kv;
  kv.config_ = config;
  auto buffer =
      os::AlignedBuffer::Allocate(StaticKvBytes(*config, num_positions));
  if (!buffer) return Annotate("keys and values of graphs", buffer.error());
  kv.buffer_ = *std::move(buffer);
  std::byte* next = kv.buffer_.data();
  for (size_t i = 0; i < config->layers.size(); ++i) {
    Layer& layer = kv.layers_.emplace_back();
    layer.widths = KvWidthsOf(*config, i);
    layer.k = next;
    layer.v = layer.k + TensorBytes(layer.widths.k, num_positions);
    next = layer.v + TensorBytes(layer.widths.v, num_positions);
  }
  return kv;
}

void StaticKv::Clear() const { std::memset(buffer_.data(), 0, buffer_.size()); }

Status StaticKv::Keep(size_t layer_idx, int64_t first, int64_t count,
                      const uint16_t* k, const uint16_t* v) const {
  const Layer& layer = layers_[layer_idx];
  const std::span keys(k, static_cast<size_t>(count) * layer.widths.k);
  const std::span values(v, static_cast<size_t>(count) * layer.widths.v);
  if (!AllFiniteF16(keys) || !AllFiniteF16(values)) {
    return Fail(ErrorCode::kCorrupt,
                "keys or values of layer {} are not finite in F16 at positions "
                "{} to {}",
                layer_idx, first, first + count - 1);
  }
  std::ranges::copy(keys, layer.k_row(first));
  std::ranges::copy(values, layer.v_row(first));
  return {};
}

void StaticKv::Take(size_t layer_idx, int64_t first, int64_t count,
                    const KvSource& source) const {
  const Layer& layer = layers_[layer_idx];
  uint16_t* keys = layer.k_row(first);
  uint16_t* values = layer.v_row(first);
  source.get(layer_idx, first, count, keys, values);
  const auto num_rows = static_cast<size_t>(count);
  ZeroWhatIsNotFinite({keys, num_rows * layer.widths.k});
  ZeroWhatIsNotFinite({values, num_rows * layer.widths.v});
  ToGraphOrder(*config_, layer_idx, count, keys);
}

void StaticKv::Give(size_t layer_idx, int64_t first, int64_t count,
                    const KvSink& sink, uint16_t* key_rows) const {
  const Layer& layer = layers_[layer_idx];
  std::copy_n(layer.k_row(first), static_cast<size_t>(count) * layer.widths.k,
              key_rows);
  ToHostOrder(*config_, layer_idx, count, key_rows);
  sink.put(layer_idx, first, count, key_rows, layer.v_row(first));
}

}  // namespace thermocline::npu
