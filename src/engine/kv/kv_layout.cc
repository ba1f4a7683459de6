#include "engine/kv/kv_layout.h"

#include <optional>
#include <string_view>

#include "base/math.h"
#include "kernels/kv_group.h"

namespace thermocline::engine {
namespace {

static_assert(kernels::kKvPage == kernels::kKvGroup);

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

Result<KvLayout> PlanKvLayout(const model::Config& config, DType k_type,
                              DType v_type, kernels::KvOrder order) {
  TC_RETURN_IF_ERROR(CheckType("-ctk", "key", k_type, config.key_width));
  TC_RETURN_IF_ERROR(CheckType("-ctv", "value", v_type, config.value_width));
  KvLayout layout = {};
  layout.k_type = k_type;
  layout.v_type = v_type;
  layout.order = order;
  layout.num_layers = config.num_layers;
  // Widths and head counts are limited by ReadConfig: their products fit.
  layout.num_kv_heads = static_cast<size_t>(config.num_kv_heads);
  layout.k_width = static_cast<size_t>(config.key_width);
  layout.v_width = static_cast<size_t>(config.value_width);
  layout.k_head_bytes = BytesOf(k_type, layout.k_width);
  layout.v_head_bytes = BytesOf(v_type, layout.v_width);
  layout.layer_bytes = layout.v_offset(layout.num_kv_heads);
  layout.page_bytes =
      static_cast<uint64_t>(layout.num_layers) * layout.layer_bytes;
  return layout;
}

Result<uint64_t> KvBytes(const KvLayout& layout, uint64_t num_pages) {
  constexpr uint64_t kMost = uint64_t{1} << 60;
  const std::optional<uint64_t> num_bytes =
      CheckedMul(num_pages, layout.page_bytes);
  if (num_bytes.has_value() && *num_bytes < kMost) return *num_bytes;
  return Fail(ErrorCode::kResourceExhausted,
              "a KV cache of {} pages of {} positions in {} layers needs more "
              "memory than can be addressed: use a smaller context (-c)",
              num_pages, kernels::kKvPage, layout.num_layers);
}

}  // namespace thermocline::engine
