#include "engine/forward.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "engine/norm.h"
#include "engine/profile.h"
#include "tensor/codec.h"

namespace thermocline::engine {

Forward::Forward(const model::Model* model, const Compute* compute,
                 const Scratch* scratch, const KvCache* cache,
                 const FfnParts& ffn, size_t dense_from,
                 const FfnObserver* observer)
    : model_(model),
      compute_(compute),
      scratch_(scratch),
      dense_from_(ffn.mode == FfnMode::kDense ? 1
                  : dense_from == 0           ? SIZE_MAX
                                              : dense_from),
      observer_(observer != nullptr && *observer ? observer : nullptr),
      rope_(model->config().rope, model->weights().rope_freq_factors) {
  std::vector<std::unique_ptr<FfnExecutor>> sparse(
      model->weights().layers.size());
  std::vector<std::unique_ptr<FfnExecutor>> dense(sparse.size());
  if (dense_from_ > 1) sparse = MakeSparseFfns(ffn);
  if (dense_from_ < SIZE_MAX) dense = MakeDenseFfns(ffn);
  layers_.reserve(sparse.size());
  for (const model::LayerWeights& weights : model->weights().layers) {
    const size_t i = layers_.size();
    layers_.push_back({
        .weights = &weights,
        .attention =
            Attention(&model->config(), &weights.attention,
                      static_cast<int64_t>(i), compute, scratch, cache),
        .sparse_ffn = std::move(sparse[i]),
        .dense_ffn = std::move(dense[i]),
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
    RunLayer(i, first_position, num_tokens);
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

void Forward::RunLayer(size_t layer_idx, int64_t first_position,
                       size_t num_tokens) {
  const Layer& layer = layers_[layer_idx];
  FfnExecutor& executor =
      num_tokens >= dense_from_ ? *layer.dense_ffn : *layer.sparse_ffn;
  const model::AttentionWeights& attention = layer.weights->attention;
  const model::FfnWeights& ffn = layer.weights->ffn;
  Normalize(attention.norm, attention.norm_bias, num_tokens);
  layer.attention.Run(first_position, num_tokens);
  // In a parallel block the FFN does not see what attention adds.
  if (!model_->config().parallel_block) AddDelta(num_tokens);
  Normalize(ffn.norm, ffn.norm_bias, num_tokens);
  executor.Select(num_tokens);
  if (observer_ != nullptr) PrepareObservation(num_tokens);
  if (model_->config().parallel_block) AddDelta(num_tokens);
  executor.Run(num_tokens);
  if (observer_ != nullptr) {
    Report(layer_idx, executor, first_position, num_tokens);
  }
  AddDelta(num_tokens);
}

// Empties the sets, and keeps the stream where the next step changes it.
void Forward::PrepareObservation(size_t num_tokens) const {
  const ObservedScratch& observed = scratch_->observed;
  for (size_t t = 0; t < num_tokens; ++t) {
    observed.candidates(t).Clear();
    observed.fired(t).Clear();
    if (!observed.stream.data) continue;
    std::ranges::copy(scratch_->residual.span(t), observed.stream.row(t));
  }
}

void Forward::Report(size_t layer_idx, const FfnExecutor& ffn,
                     int64_t first_position, size_t num_tokens) const {
  const ObservedScratch& observed = scratch_->observed;
  const Rows& stream =
      observed.stream.data ? observed.stream : scratch_->residual;
  const Rows gate = ffn.gate();
  const auto num_used =
      static_cast<size_t>(model_->config().ffn.num_experts_used);
  const auto list = [](const predictor::NeuronSet& set, uint32_t* ids) {
    size_t count = 0;
    set.ForEachIn(0, set.num_neurons, [&](size_t neuron) {
      ids[count++] = static_cast<uint32_t>(neuron);
    });
    return std::span<const uint32_t>(ids, count);
  };
  for (size_t t = 0; t < num_tokens; ++t) {
    FfnObservation seen = {
        .layer_idx = static_cast<int64_t>(layer_idx),
        .position = first_position + static_cast<int64_t>(t),
        .input = scratch_->normed.span(t),
        .stream = stream.span(t),
        .candidates = list(observed.candidates(t), observed.ids),
        .fired = list(observed.fired(t), observed.ids + observed.num_neurons),
    };
    if (gate.data) seen.gate = gate.span(t);
    if (num_used > 0) {
      seen.experts = {scratch_->experts.chosen + t * num_used, num_used};
    }
    (*observer_)(seen);
  }
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
