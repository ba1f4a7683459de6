#include "engine/kv/kv_cache.h"

#include <optional>
#include <string_view>

#include "base/math.h"
#include "base/units.h"
#include "kernels/kv_group.h"

namespace thermocline::engine {
namespace {

constexpr uint64_t kRegionAlignment = 64;

Status CheckType(std::string_view flag, std::string_view what, DType dtype,
                 int64_t head_width) {
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kQ8_0) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} {}: the KV cache can be f32, f16 or q8_0", flag,
                NameOf(dtype));
  }
  const int64_t block = InfoOf(dtype).block_elems;
  if (head_width % block != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} {}: this model's {} heads are {} wide, which is not a "
                "multiple of {}: use f16",
                flag, NameOf(dtype), what, head_width, block);
  }
  return {};
}

}  // namespace

Result<KvLayout> PlanKvCache(const model::Config& config, DType k_type,
                             DType v_type, int64_t context,
                             kernels::KvOrder order) {
  TC_RETURN_IF_ERROR(CheckType("-ctk", "key", k_type, config.key_width));
  TC_RETURN_IF_ERROR(CheckType("-ctv", "value", v_type, config.value_width));
  KvLayout layout = {};
  layout.k_type = k_type;
  layout.v_type = v_type;
  layout.order = order;
  layout.num_layers = config.num_layers;
  layout.context = context;
  // Widths and head counts are limited by ReadConfig: their products fit.
  const uint64_t num_heads = static_cast<uint64_t>(config.num_kv_heads);
  layout.k_head_bytes =
      BytesOf(k_type, static_cast<uint64_t>(config.key_width));
  layout.v_head_bytes =
      BytesOf(v_type, static_cast<uint64_t>(config.value_width));
  layout.k_row_bytes = num_heads * layout.k_head_bytes;
  layout.v_row_bytes = num_heads * layout.v_head_bytes;

  const uint64_t positions =
      RoundUp(static_cast<uint64_t>(context),
              order == kernels::KvOrder::kGroups ? kernels::kKvGroup : 1);
  const std::optional<uint64_t> k_bytes =
      CheckedMul(positions, layout.k_row_bytes);
  const std::optional<uint64_t> v_bytes =
      CheckedMul(positions, layout.v_row_bytes);
  // Leaves room for rounding every head's stream up.
  constexpr uint64_t kMost = uint64_t{1} << 60;
  if (k_bytes.has_value() && v_bytes.has_value() && *k_bytes < kMost &&
      *v_bytes < kMost) {
    layout.k_stream_bytes =
        RoundUp(positions * layout.k_head_bytes, kRegionAlignment);
    layout.v_stream_bytes =
        RoundUp(positions * layout.v_head_bytes, kRegionAlignment);
    layout.v_offset = num_heads * layout.k_stream_bytes;
    layout.layer_bytes = layout.v_offset + num_heads * layout.v_stream_bytes;
    const std::optional<uint64_t> num_bytes = CheckedMul(
        static_cast<uint64_t>(config.num_layers), layout.layer_bytes);
    if (num_bytes.has_value() && *num_bytes < kMost) {
      layout.num_bytes = *num_bytes;
      return layout;
    }
  }
  return Fail(ErrorCode::kResourceExhausted,
              "a KV cache of {} positions in {} layers needs more memory than "
              "can be addressed: use a smaller context (-c)",
              context, config.num_layers);
}

Result<KvCache> KvCache::Create(const KvLayout& layout) {
  auto buffer = os::AlignedBuffer::Allocate(layout.num_bytes);
  if (!buffer.has_value()) {
    return Annotate(fmt::format("KV cache of {} positions", layout.context),
                    buffer.error());
  }
  return KvCache(layout, *std::move(buffer));
}

}  // namespace thermocline::engine
