#include "engine/kv/kv_layout.h"

#include <optional>
#include <string_view>

#include "base/math.h"
#include "base/remedy.h"
#include "kernels/kv_group.h"

namespace thermocline::engine {
namespace {

static_assert(kernels::kKvPage == kernels::kKvGroup);

Status CheckType(Remedy remedy, std::string_view what, DType dtype,
                 size_t head_width) {
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kQ8_0) {
    return Fail(ErrorCode::kInvalidArgument, Advice{remedy},
                "a KV cache with {}s in {}: it can be f32, f16 or q8_0", what,
                NameOf(dtype));
  }
  const auto block = static_cast<size_t>(InfoOf(dtype).block_elems);
  if (head_width % block != 0) {
    return Fail(ErrorCode::kInvalidArgument, Advice{remedy},
                "a KV cache with {0}s in {1}: this model's {0} heads are {2} "
                "wide, which is not a multiple of {3}; it can be f16",
                what, NameOf(dtype), head_width, block);
  }
  return {};
}

}  // namespace

Result<KvLayout> PlanKvLayout(const model::Config& config, DType k_type,
                              DType v_type, kernels::KvOrder order) {
  KvLayout layout = {.k_type = k_type, .v_type = v_type, .order = order};
  layout.layers.reserve(config.layers.size());
  for (const model::LayerSpec& spec : config.layers) {
    const model::AttentionSpec& attention = spec.attention;
    TC_RETURN_IF_ERROR(
        CheckType(Remedy::kKeyType, "key", k_type, attention.key_width));
    TC_RETURN_IF_ERROR(
        CheckType(Remedy::kValueType, "value", v_type, attention.value_width));
    // Widths, heads and layers are limited by ReadConfig: their products fit.
    KvLayerLayout& layer = layout.layers.emplace_back();
    layer.offset = layout.page_bytes;
    layer.num_kv_heads = attention.num_kv_heads;
    layer.k_width = attention.key_width;
    layer.v_width = attention.value_width;
    layer.k_head_bytes = BytesOf(k_type, layer.k_width);
    layer.v_head_bytes = BytesOf(v_type, layer.v_width);
    layout.page_bytes = layer.v_offset(layer.num_kv_heads);
  }
  return layout;
}

Result<uint64_t> KvBytes(const KvLayout& layout, uint64_t num_pages) {
  constexpr uint64_t kMost = uint64_t{1} << 60;
  const std::optional<uint64_t> num_bytes =
      CheckedMul(num_pages, layout.page_bytes);
  if (num_bytes.has_value() && *num_bytes < kMost) return *num_bytes;
  return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kLessMemory},
              "a KV cache of {} pages of {} positions in {} layers needs more "
              "memory than can be addressed",
              num_pages, kernels::kKvPage, layout.layers.size());
}

}  // namespace thermocline::engine
