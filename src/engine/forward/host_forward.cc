// The layer loop: embed, then per layer norm, attention, norm, FFN, then norm
// and head. One loop for every architecture, driven by its description;
// RunLayer is the heart of it. What a layer computes is in executors, made in
// the constructor: attention/, and dense, expert or sparse ffn/, for each
// phase.
#include "engine/forward/host_forward.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/remedy.h"
#include "compute/norm.h"
#include "compute/stage_times.h"
#include "engine/attention/attention.h"
#include "engine/forward/embedding.h"
#include "engine/forward/ffn_report.h"
#include "engine/forward/head_executor.h"
#include "engine/forward/pass_rows.h"

namespace thermocline::engine {
namespace {

using compute::Rows;
using compute::ScopedStage;
using compute::Stage;

// The host's, and for generated rows the device's, if it has one.
template <typename Executor>
std::array<Executor*, kNumPhases> OfPhases(
    const std::unique_ptr<Executor>& host,
    const std::unique_ptr<Executor>* device) {
  const bool is_there = device != nullptr && *device != nullptr;
  return {host.get(), is_there ? device->get() : host.get()};
}

class HostForward final : public Forward {
 public:
  explicit HostForward(const HostParts& parts);

  bool Takes(const BatchRun& /*run*/) const override { return true; }
  Status Run(const Batch& batch, std::span<float> logits,
             const PassHooks& hooks) override;

 private:
  struct Layer {
    const model::LayerWeights* weights;
    std::unique_ptr<AttentionExecutor> host_attention;
    std::array<AttentionExecutor*, kNumPhases> attention;
    std::array<std::unique_ptr<FfnExecutor>, kNumPhases> ffn;
  };

  Status RunPass(const Batch& batch, std::span<float> logits,
                 const PassHooks& hooks);
  void Lay(const Batch& batch) {
    rows_.Lay(batch, [this](const SequenceRows& run) {
      return parts_.prompts != nullptr && !is_observed() &&
             parts_.prompts->Takes(run);
    });
  }
  // Those of prompts that somebody else computes.
  Status RunTaken(const PassHooks& hooks);
  // What is taken is the host's again, and all later prompts.
  void TakeBack(const Error& error);
  Status RunLayers(size_t num_rows, const PassHooks& hooks);
  // From one layer's residual stream to the next one's, for the rows of a
  // phase.
  Status RunLayer(size_t layer_idx, const PhaseRows& rows);
  AttentionCall AttentionCallOf(size_t layer_idx, const PhaseRows& rows) const;
  FfnCall FfnCallOf(size_t layer_idx, const PhaseRows& rows) const;
  void Normalize(const TensorView& weight, const TensorView& bias,
                 const PhaseRows& rows);
  // residual += delta
  void AddDelta(const PhaseRows& rows);
  bool AllFinite(const Rows& rows, size_t num_rows);
  // Those of a phase; moves `logits` on behind them.
  Status ComputeLogits(const PhaseRows& rows, std::span<float>& logits);
  compute::Norm NormOf(const TensorView& weight, const TensorView& bias) const;
  // What computes generated rows beside the host; or null.
  const DeviceModel* device() const { return parts_.ffn.device; }
  bool is_observed() const { return parts_.observer != nullptr; }
  const model::Config& config() const { return parts_.model->config(); }

  HostParts parts_;
  const compute::Compute& compute_;
  const Scratch& scratch_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  std::unique_ptr<HeadExecutor> host_head_;
  std::array<HeadExecutor*, kNumPhases> heads_;
  PassRows rows_;
};

HostForward::HostForward(const HostParts& parts)
    : parts_(parts),
      compute_(*parts.compute),
      scratch_(*parts.scratch),
      embedding_(parts.model, parts.compute, parts.scratch),
      host_head_(MakeHostHead(&parts.model->weights(), parts.compute)),
      heads_(OfPhases(host_head_, device() ? &device()->head : nullptr)),
      rows_(parts.max_rows) {
  if (is_observed() && !*parts_.observer) parts_.observer = nullptr;
  FillFfnScratch(parts.ffn);
  const std::vector<model::LayerWeights>& layers =
      parts.model->weights().layers;
  layers_.reserve(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    Layer& layer = layers_.emplace_back();
    layer.weights = &layers[i];
    layer.host_attention = std::make_unique<Attention>(
        &config(), &layers[i].attention, i, parts.compute,
        &parts.scratch->attention[i]);
    layer.attention = OfPhases(layer.host_attention,
                               device() ? &device()->attention[i] : nullptr);
    for (const Phase phase : kPhases) {
      layer.ffn[static_cast<size_t>(phase)] =
          MakeFfn(parts.ffn, i, (*parts.layers)[i].of(phase), phase);
    }
  }
}

Status HostForward::Run(const Batch& batch, std::span<float> logits,
                        const PassHooks& hooks) {
  const Status status = RunPass(batch, logits, hooks);
  if (!status && parts_.prompts != nullptr) parts_.prompts->Forget();
  if (device() == nullptr) return status;
  if (!status) {
    device()->lane->Drain();
  } else if (device()->kv != nullptr) {
    device()->kv->Commit(rows_.generated());
  }
  return status;
}

Status HostForward::RunPass(const Batch& batch, std::span<float> logits,
                            const PassHooks& hooks) {
  compute::StageTimes* times = compute_.times;
  const ScopedStage whole(compute_, times ? &times->whole : nullptr);
  Lay(batch);
  embedding_.Run(batch);
  const size_t num_rows = batch.num_rows();
  if (!AllFinite(scratch_.residual, num_rows)) {
    return Fail(ErrorCode::kCorrupt, Advice{Remedy::kCheckTensors},
                "{}: the embedding of a token is not finite: the weights are "
                "damaged",
                parts_.model->file().path());
  }
  if (device() != nullptr && device()->kv != nullptr) {
    TC_RETURN_IF_ERROR(device()->kv->Sync(rows_.generated()));
  }
  TC_RETURN_IF_ERROR(RunTaken(hooks));
  TC_RETURN_IF_ERROR(RunLayers(num_rows, hooks));
  for (const PhaseRows& rows : rows_.parts()) {
    TC_RETURN_IF_ERROR(ComputeLogits(rows, logits));
  }
  TC_CHECK(logits.empty());
  return {};
}

Status HostForward::RunTaken(const PassHooks& hooks) {
  for (const PhaseRows& part : rows_.parts()) {
    if (!part.is_taken) continue;
    const Rows rows = scratch_.residual.From(part.first);
    Status status = parts_.prompts->Run(part.sequences.front(), rows, hooks);
    if (status.has_value() && !AllFinite(rows, part.count)) {
      status = Fail(ErrorCode::kCorrupt, Advice{Remedy::kCheckTensors},
                    "{}: what the last layer gives for a prompt is not finite: "
                    "its weights are damaged, or the device that computes "
                    "prompts is wrong",
                    parts_.model->file().path());
    }
    if (status.has_value()) continue;
    if (status.error().code == ErrorCode::kCancelled ||
        !parts_.prompts->yields_to_host()) {
      return status;
    }
    TakeBack(status.error());
    return {};
  }
  return {};
}

void HostForward::TakeBack(const Error& error) {
  LogWarning("{}: from now on the host computes prompts", error.message);
  parts_.prompts->GiveUp();
  if (parts_.streamed != nullptr) parts_.streamed->EndPass();
  for (PhaseRows& part : rows_.parts()) {
    if (!std::exchange(part.is_taken, false)) continue;
    // What it may have written over; the others' are computed anew.
    for (size_t row = 0; row < part.count; ++row) {
      embedding_.RunRow(part.runs.front(), row, part.first + row);
    }
  }
}

Status HostForward::RunLayers(size_t num_rows, const PassHooks& hooks) {
  const auto is_ours = [](const PhaseRows& part) { return !part.is_taken; };
  if (std::ranges::none_of(rows_.parts(), is_ours)) {
    if (hooks.layers_done) hooks.layers_done(layers_.size());
    return {};
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (hooks.layers_done) hooks.layers_done(i);
    if (compute_.timeline != nullptr) {
      compute_.timeline->SetLayer(static_cast<int32_t>(i));
    }
    if (hooks.cancel != nullptr && hooks.cancel->load()) {
      return Fail(ErrorCode::kCancelled, "cancelled");
    }
    LayerStream* left = parts_.streamed;  // or null
    if (left) TC_RETURN_IF_ERROR(left->Await(i, compute_));
    for (const PhaseRows& part : rows_.parts()) {
      if (!part.is_taken) TC_RETURN_IF_ERROR(RunLayer(i, part));
    }
    if (left) left->Leave(i);
    if (!AllFinite(scratch_.residual, num_rows)) {
      return Fail(ErrorCode::kCorrupt, Advice{Remedy::kCheckOrWideKv},
                  "{}: the output of layer {} is not finite: its weights are "
                  "damaged, the file says wrong things about the model, or "
                  "keys and values are too large for the KV cache's type{}",
                  parts_.model->file().path(), i, DoubtOfLayer(device(), i));
    }
  }
  return {};
}

Status HostForward::RunLayer(size_t layer_idx, const PhaseRows& rows) {
  const Layer& layer = layers_[layer_idx];
  FfnExecutor& executor = *layer.ffn[static_cast<size_t>(rows.phase)];
  const model::AttentionWeights& attention = layer.weights->attention;
  const model::FfnWeights& ffn = layer.weights->ffn;
  FfnCall call = FfnCallOf(layer_idx, rows);
  TC_RETURN_IF_ERROR(executor.Select(call, SelectAt::kLayerInput));
  Normalize(attention.norm, attention.norm_bias, rows);
  TC_RETURN_IF_ERROR(layer.attention[static_cast<size_t>(rows.phase)]->Run(
      AttentionCallOf(layer_idx, rows)));
  // In a parallel block the FFN does not see what attention adds.
  const bool is_parallel = config().layers[layer_idx].parallel;
  if (!is_parallel) AddDelta(rows);
  Normalize(ffn.norm, ffn.norm_bias, rows);
  call.normed = scratch_.normed.From(rows.first);
  TC_RETURN_IF_ERROR(executor.Select(call, SelectAt::kFfnInput));
  if (is_observed() && scratch_.stream.data != nullptr) {
    for (size_t t = rows.first; t < rows.first + rows.count; ++t) {
      std::ranges::copy(scratch_.residual.span(t), scratch_.stream.row(t));
    }
  }
  if (is_parallel) AddDelta(rows);
  TC_RETURN_IF_ERROR(executor.Run(call));
  if (is_observed()) {
    ReportFfn({.observer = parts_.observer,
               .scratch = parts_.scratch,
               .spec = &config().layers[layer_idx].ffn,
               .layer_idx = layer_idx,
               .first_row = rows.first,
               .sequences = rows.sequences,
               .gate = executor.gate()});
  }
  AddDelta(rows);
  return {};
}

AttentionCall HostForward::AttentionCallOf(size_t layer_idx,
                                           const PhaseRows& rows) const {
  AttentionCall call = {.phase = rows.phase,
                        .num_rows = rows.count,
                        .runs = rows.sequences,
                        .normed = scratch_.normed.From(rows.first),
                        .out = scratch_.delta.From(rows.first)};
  const int rope = config().layers[layer_idx].attention.rope;
  if (rope != model::AttentionSpec::kNoRope) {
    const RopeRows& angles = scratch_.ropes[static_cast<size_t>(rope)];
    call.rope_cos = angles.cos.From(rows.first);
    call.rope_sin = angles.sin.From(rows.first);
  }
  return call;
}

FfnCall HostForward::FfnCallOf(size_t layer_idx, const PhaseRows& rows) const {
  const bool is_counted =
      rows.phase == Phase::kGenerate &&
      (*parts_.layers)[layer_idx].of(rows.phase) != FfnMode::kDense;
  return {.phase = rows.phase,
          .num_rows = rows.count,
          .stream = scratch_.residual.From(rows.first),
          .normed = {},
          .out = scratch_.delta.From(rows.first),
          .sets = scratch_.sets_of(layer_idx).From(rows.first),
          .next_sets = scratch_.sets_of(layer_idx + 1).From(rows.first),
          .totals = is_counted ? parts_.totals : nullptr};
}

compute::Norm HostForward::NormOf(const TensorView& weight,
                                  const TensorView& bias) const {
  return {config().norm, config().norm_epsilon, weight, bias};
}

// normed = norm(residual)
void HostForward::Normalize(const TensorView& weight, const TensorView& bias,
                            const PhaseRows& rows) {
  const ScopedStage stage(compute_, Stage::kNorm);
  compute::Normalize(compute_, NormOf(weight, bias),
                     scratch_.residual.From(rows.first), rows.count,
                     scratch_.normed.From(rows.first));
}

void HostForward::AddDelta(const PhaseRows& rows) {
  const ScopedStage stage(compute_, Stage::kResidual);
  compute_.pool->ParallelFor(
      rows.count, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = rows.first + begin; t < rows.first + end; ++t) {
          compute_.kernels->add(scratch_.delta.row(t), scratch_.delta.width,
                                scratch_.residual.row(t));
        }
      });
}

bool HostForward::AllFinite(const Rows& rows, size_t num_rows) {
  const ScopedStage stage(compute_, Stage::kResidual);
  std::atomic<bool> all_finite = true;
  compute_.pool->ParallelFor(
      num_rows, 1, [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t t = begin; t < end; ++t) {
          if (!compute_.kernels->all_finite(rows.row(t), rows.width)) {
            all_finite.store(false, std::memory_order_relaxed);
          }
        }
      });
  return all_finite.load(std::memory_order_relaxed);
}

Status HostForward::ComputeLogits(const PhaseRows& rows,
                                  std::span<float>& logits) {
  const size_t num_rows = Batch{rows.runs}.num_logit_rows();
  if (num_rows == 0) return {};
  const model::Weights& weights = parts_.model->weights();
  const size_t vocab_size = config().vocab_size;
  const Rows out = {logits.data(), vocab_size, vocab_size};
  {
    HeadExecutor& head = *heads_[static_cast<size_t>(rows.phase)];
    const ScopedStage stage(compute_, Stage::kHead, head.num_bytes());
    size_t num_normed = 0;
    for (size_t i = 0; i < rows.runs.size(); ++i) {
      const size_t count = rows.runs[i].num_logit_rows();
      const SequenceRows& run = rows.sequences[i];
      compute::Normalize(compute_,
                         NormOf(weights.output_norm, weights.output_norm_bias),
                         scratch_.residual.From(rows.first + run.first_row +
                                                run.num_rows - count),
                         count, scratch_.normed.From(num_normed));
      num_normed += count;
    }
    TC_RETURN_IF_ERROR(head.Run({.phase = rows.phase,
                                 .num_rows = num_rows,
                                 .normed = scratch_.normed,
                                 .logits = out}));
  }
  if (!AllFinite(out, num_rows)) {
    return Fail(ErrorCode::kCorrupt, Advice{Remedy::kCheckTensors},
                "{}: the logits are not finite: the output norm or the head "
                "is damaged{}",
                parts_.model->file().path(), DoubtOfHead(device()));
  }
  logits = logits.subspan(num_rows * vocab_size);
  return {};
}

}  // namespace

std::unique_ptr<Forward> MakeHostForward(const HostParts& parts) {
  return std::make_unique<HostForward>(parts);
}

}  // namespace thermocline::engine
