#include "engine/forward.h"

#include <array>
#include <atomic>

#include "base/check.h"
#include "engine/ffn/dense_ffn.h"
#include "engine/ffn/expert_ffn.h"
#include "engine/ffn/sparse_ffn.h"
#include "engine/norm.h"
#include "engine/profile.h"
#include "tensor/codec.h"

namespace thermocline::engine {
namespace {

std::unique_ptr<FfnExecutor> MakeFfn(FfnMode mode, const SparseFfnParts& parts,
                                     int64_t layer_idx) {
  if (mode == FfnMode::kFast) return MakeSparseFfn(parts, layer_idx);
  const model::FfnConfig* config = &parts.config->ffn;
  const model::FfnWeights* weights =
      &parts.weights->layers[static_cast<size_t>(layer_idx)].ffn;
  return config->num_experts > 0
             ? MakeExpertFfn(config, weights, parts.compute, parts.scratch)
             : MakeDenseFfn(config, weights, parts.compute, parts.scratch);
}

}  // namespace

Forward::Forward(const model::Model* model, const Compute* compute,
                 const Scratch* scratch, const KvCache* cache, FfnMode ffn,
                 const ActivityFn* activity)
    : model_(model),
      compute_(compute),
      scratch_(scratch),
      rope_(model->config().rope, model->weights().rope_freq_factors) {
  const model::Config& config = model->config();
  const SparseFfnParts parts = {.config = &config,
                                .weights = &model->weights(),
                                .order = model->neuron_order(),
                                .activity = activity,
                                .compute = compute,
                                .scratch = scratch};
  layers_.reserve(model->weights().layers.size());
  for (const model::LayerWeights& weights : model->weights().layers) {
    const int64_t layer_idx = static_cast<int64_t>(layers_.size());
    layers_.push_back({
        .weights = &weights,
        .attention = Attention(&config, &weights.attention, layer_idx, compute,
                               scratch, cache),
        .ffn = MakeFfn(ffn, parts, layer_idx),
    });
  }
}

Status Forward::Run(std::span<const text::TokenId> tokens,
                    int64_t first_position, const BetweenLayers& between_layers,
                    std::span<float> logits) {
  const size_t num_tokens = tokens.size();
  Profile* profile = compute_->profile;
  const ScopedStage whole(*compute_, profile ? &profile->whole : nullptr, 0);
  Embed(tokens, first_position);
  if (!AllFinite(scratch_->residual, num_tokens)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: the embedding of a token is not finite: the weights are "
                "damaged (--check-tensors finds where)",
                model_->file().path());
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (!between_layers(static_cast<int64_t>(i))) {
      return Fail(ErrorCode::kCancelled, "cancelled");
    }
    RunLayer(layers_[i], first_position, num_tokens);
    if (!AllFinite(scratch_->residual, num_tokens)) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: the output of layer {} is not finite: its weights are "
                  "damaged (--check-tensors finds where), the file says wrong "
                  "things about the model, or keys and values are too large "
                  "for the KV cache's type (-ctk f32 -ctv f32 holds them)",
                  model_->file().path(), i);
    }
  }
  return ComputeLogits(num_tokens, logits);
}

void Forward::RunLayer(const Layer& layer, int64_t first_position,
                       size_t num_tokens) {
  const model::AttentionWeights& attention = layer.weights->attention;
  const model::FfnWeights& ffn = layer.weights->ffn;
  Normalize(attention.norm, attention.norm_bias, num_tokens);
  layer.attention.Run(first_position, num_tokens);
  // In a parallel block the FFN does not see what attention adds.
  if (!model_->config().parallel_block) AddDelta(num_tokens);
  Normalize(ffn.norm, ffn.norm_bias, num_tokens);
  layer.ffn->Select(first_position, num_tokens);
  if (model_->config().parallel_block) AddDelta(num_tokens);
  layer.ffn->Run(num_tokens);
  AddDelta(num_tokens);
}

void Forward::Embed(std::span<const text::TokenId> tokens,
                    int64_t first_position) {
  const TensorView& table = model_->weights().token_embedding;
  const TensorView& positions = model_->weights().position_embedding;
  const ScopedStage stage(*compute_, Stage::kEmbed,
                          tokens.size() * table.row_bytes());
  compute_->pool->ParallelFor(
      tokens.size(), 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          DequantizeRow(table.dtype,
                        table.row(static_cast<uint64_t>(tokens[t])),
                        scratch_->residual.span(t));
          const int64_t position = first_position + static_cast<int64_t>(t);
          rope_.Angles(position, scratch_->rope_cos.row(t),
                       scratch_->rope_sin.row(t));
          if (positions) AddPosition(positions, position, t);
        }
      });
}

// residual[t] += the learned vector of a position, by way of delta.
void Forward::AddPosition(const TensorView& positions, int64_t position,
                          size_t token_idx) {
  DequantizeRow(positions.dtype, positions.row(static_cast<uint64_t>(position)),
                scratch_->delta.span(token_idx));
  compute_->kernels->add(scratch_->delta.row(token_idx), scratch_->delta.width,
                         scratch_->residual.row(token_idx));
}

void Forward::Normalize(const TensorView& weight, const TensorView& bias,
                        size_t num_tokens) {
  const ScopedStage stage(*compute_, Stage::kNorm);
  engine::Normalize(*compute_, model_->config(), weight, bias,
                    scratch_->residual, num_tokens, scratch_->normed);
}

void Forward::AddDelta(size_t num_tokens) {
  const ScopedStage stage(*compute_, Stage::kResidual);
  compute_->pool->ParallelFor(
      num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          compute_->kernels->add(scratch_->delta.row(t), scratch_->delta.width,
                                 scratch_->residual.row(t));
        }
      });
}

bool Forward::AllFinite(const Rows& rows, size_t num_tokens) {
  const ScopedStage stage(*compute_, Stage::kResidual);
  std::atomic<bool> all_finite = true;
  compute_->pool->ParallelFor(
      num_tokens, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          if (!compute_->kernels->all_finite(rows.row(t), rows.width)) {
            all_finite.store(false, std::memory_order_relaxed);
          }
        }
      });
  return all_finite.load(std::memory_order_relaxed);
}

Status Forward::ComputeLogits(size_t num_tokens, std::span<float> logits) {
  if (logits.empty()) return {};
  const model::Weights& weights = model_->weights();
  const size_t vocab_size = static_cast<size_t>(model_->config().vocab_size);
  const size_t num_rows = logits.size() / vocab_size;
  TC_CHECK(num_rows * vocab_size == logits.size() && num_rows <= num_tokens);
  const Rows last = {scratch_->residual.row(num_tokens - num_rows),
                     scratch_->residual.width, scratch_->residual.stride};
  const Rows out = {logits.data(), vocab_size, vocab_size};
  {
    const ScopedStage stage(*compute_, Stage::kHead, weights.head.num_bytes());
    engine::Normalize(*compute_, model_->config(), weights.output_norm,
                      weights.output_norm_bias, last, num_rows,
                      scratch_->normed);
    const std::array<Product, 1> head = {{{weights.head, TensorView(), out}}};
    MultiplyAll(*compute_, scratch_->normed, num_rows, head);
  }
  if (!AllFinite(out, num_rows)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: the logits are not finite: the output norm or the head "
                "is damaged (--check-tensors finds where)",
                model_->file().path());
  }
  return {};
}

}  // namespace thermocline::engine
