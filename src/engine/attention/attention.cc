#include "engine/attention/attention.h"

#include <array>
#include <cmath>

namespace thermocline::engine {

void Attention::Run(int64_t first_position, size_t num_tokens) const {
  const std::array<Product, 3> qkv = {{
      {weights_->q, weights_->q_bias, scratch_->q},
      {weights_->k, weights_->k_bias, scratch_->k},
      {weights_->v, weights_->v_bias, scratch_->v},
  }};
  MultiplyAll(*compute_, scratch_->normed, num_tokens, qkv);
  RotateAndStore(first_position, num_tokens);
  Attend(first_position, num_tokens);
  const std::array<Product, 1> out = {
      {{weights_->out, weights_->out_bias, scratch_->delta}}};
  MultiplyAll(*compute_, scratch_->attended, num_tokens, out);
}

void Attention::RotateAndStore(int64_t first_position,
                               size_t num_tokens) const {
  const kernels::KernelTable& kernels = *compute_->kernels;
  const KvLayout& layout = cache_->layout();
  const size_t head_width = static_cast<size_t>(config_->key_width);
  const size_t num_pairs = scratch_->rope_cos.width;
  const auto rotate = [&](float* heads, int64_t num_heads, size_t t) {
    kernels.rope(heads, static_cast<size_t>(num_heads), head_width,
                 config_->rope.kind, scratch_->rope_cos.row(t),
                 scratch_->rope_sin.row(t), num_pairs);
  };
  compute_->pool->ParallelFor(
      num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          const int64_t position = first_position + static_cast<int64_t>(t);
          if (config_->rope.kind != RopeKind::kNone) {
            rotate(scratch_->q.row(t), config_->num_heads, t);
            rotate(scratch_->k.row(t), config_->num_kv_heads, t);
          }
          kernels.store_row(layout.k_type, scratch_->k.row(t),
                            scratch_->k.width,
                            cache_->keys(layer_idx_, position));
          kernels.store_row(layout.v_type, scratch_->v.row(t),
                            scratch_->v.width,
                            cache_->values(layer_idx_, position));
        }
      });
}

void Attention::Attend(int64_t first_position, size_t num_tokens) const {
  const KvLayout& layout = cache_->layout();
  const size_t num_kv_heads = static_cast<size_t>(config_->num_kv_heads);
  const size_t group = static_cast<size_t>(config_->num_heads) / num_kv_heads;
  const size_t k_width = static_cast<size_t>(config_->key_width);
  const size_t v_width = static_cast<size_t>(config_->value_width);
  const float scale = 1.0f / std::sqrt(static_cast<float>(k_width));
  const auto attend_one = [&](size_t t, size_t kv_head, int worker_idx) {
    kernels::AttentionArgs args;
    args.q = scratch_->q.row(t) + kv_head * group * k_width;
    args.num_queries = group;
    args.k_dtype = layout.k_type;
    args.v_dtype = layout.v_type;
    args.k = cache_->keys(layer_idx_, 0) + kv_head * layout.k_head_bytes;
    args.k_stride_bytes = layout.k_row_bytes;
    args.v = cache_->values(layer_idx_, 0) + kv_head * layout.v_head_bytes;
    args.v_stride_bytes = layout.v_row_bytes;
    args.k_width = k_width;
    args.v_width = v_width;
    args.num_positions = static_cast<size_t>(first_position) + t + 1;
    args.scale = scale;
    args.scores = scratch_->scores.row(static_cast<size_t>(worker_idx));
    args.out = scratch_->attended.row(t) + kv_head * group * v_width;
    compute_->kernels->attention(args);
  };
  compute_->pool->ParallelFor(num_tokens * num_kv_heads, 1,
                              [&](size_t begin, size_t end, int worker_idx) {
                                for (size_t i = begin; i < end; ++i) {
                                  attend_one(i / num_kv_heads, i % num_kv_heads,
                                             worker_idx);
                                }
                              });
}

}  // namespace thermocline::engine
