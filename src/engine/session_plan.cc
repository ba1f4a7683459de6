#include "engine/session_plan.h"

#include <algorithm>
#include <initializer_list>

#include "base/check.h"
#include "base/math.h"
#include "base/units.h"
#include "engine/ffn/free_selector.h"
#include "kernels/kv_group.h"
#include "os/thread_pool.h"
#include "os/topology.h"

namespace thermocline::engine {
namespace {

Result<int64_t> ContextOf(const model::Config& config,
                          const SessionOptions& options) {
  if (options.context < 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "-c {}: a context has at least one position", options.context);
  }
  if (config.num_positions > 0 && options.context > config.num_positions) {
    return Fail(ErrorCode::kInvalidArgument,
                "-c {}: this model learned {} positions and has no others",
                options.context, config.num_positions);
  }
  if (options.context > 0) return options.context;
  if (config.context_length <= 0) return kDefaultContextMax;
  return std::min(config.context_length, kDefaultContextMax);
}

Result<int> NumThreadsOf(const SessionOptions& options) {
  if (options.num_threads < 0 ||
      options.num_threads > os::ThreadPool::kMaxThreads) {
    return Fail(ErrorCode::kInvalidArgument,
                "-t {}: the number of threads is 1 to {}, or 0 for one per "
                "physical core",
                options.num_threads, os::ThreadPool::kMaxThreads);
  }
  if (options.num_threads > 0) return options.num_threads;
  return std::clamp(os::ReadTopology().num_cores, 1,
                    os::ThreadPool::kMaxThreads);
}

// What computing every neuron reads.
uint64_t MatrixBytes(const model::FfnMatrices& matrices) {
  uint64_t num_bytes = 0;
  for (const TensorView& view :
       {matrices.gate, matrices.up,
        matrices.down ? matrices.down : matrices.down_t}) {
    if (view) num_bytes += view.num_bytes();
  }
  return num_bytes;
}

// Of experts those that num_tokens tokens can choose.
uint64_t FfnMatrixBytes(const model::FfnConfig& config,
                        const model::FfnWeights& weights, uint64_t num_tokens) {
  if (config.num_experts == 0) return MatrixBytes(weights);
  uint64_t num_bytes = 0;
  for (const model::FfnMatrices& expert : weights.experts) {
    num_bytes += MatrixBytes(expert);
  }
  const uint64_t num_experts = static_cast<uint64_t>(config.num_experts);
  const uint64_t num_used = static_cast<uint64_t>(config.num_experts_used);
  return num_bytes / num_experts * std::min(num_experts, num_tokens * num_used);
}

uint64_t SumOfBytes(std::initializer_list<TensorView> views) {
  uint64_t num_bytes = 0;
  for (const TensorView& view : views) {
    if (view) num_bytes += view.num_bytes();
  }
  return num_bytes;
}

// All but the matrices of FFNs and predictors.
uint64_t FixedWeightBytes(const model::Model& model, uint64_t num_tokens) {
  const model::Weights& weights = model.weights();
  uint64_t num_bytes =
      SumOfBytes({weights.output_norm, weights.output_norm_bias, weights.head});
  if (weights.position_embedding) {
    num_bytes += num_tokens * weights.position_embedding.row_bytes();
  }
  if (!weights.tied) {
    num_bytes += num_tokens * weights.token_embedding.row_bytes();
  }
  for (const model::LayerWeights& layer : weights.layers) {
    const model::AttentionWeights& a = layer.attention;
    const model::FfnWeights& f = layer.ffn;
    num_bytes += SumOfBytes({a.norm, a.norm_bias, a.q, a.k, a.v, a.out}) +
                 SumOfBytes({a.q_bias, a.k_bias, a.v_bias, a.out_bias}) +
                 SumOfBytes({f.norm, f.norm_bias, f.router, f.gate_bias,
                             f.up_bias, f.down_bias});
  }
  return num_bytes;
}

}  // namespace

Result<SessionPlan> PlanSession(const model::Config& config,
                                const SessionOptions& options) {
  if (options.batch < 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "-b {}: a batch has at least one token", options.batch);
  }
  if (options.dense_from < 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "batches of {} tokens and more cannot be dense",
                options.dense_from);
  }
  SessionPlan plan = {};
  TC_ASSIGN_OR_RETURN(const int64_t context, ContextOf(config, options));
  TC_ASSIGN_OR_RETURN(plan.scratch.num_threads, NumThreadsOf(options));
  TC_ASSIGN_OR_RETURN(plan.ffn,
                      ChooseFfn(config, options.ffn, options.predictor));
  plan.scratch.ffn = plan.ffn.mode;
  plan.scratch.isa = options.isa;
  plan.scratch.products_batch = options.products_batch;
  plan.scratch.observed = static_cast<bool>(options.observer);
  plan.scratch.context = context;
  plan.scratch.batch = std::min(options.batch, context);
  TC_ASSIGN_OR_RETURN(
      plan.kv, PlanKvCache(config, options.k_type, options.v_type, context,
                           kernels::KvOrderFor(options.isa, options.k_type,
                                               options.v_type)));
  plan.need.kv_bytes = plan.kv.num_bytes;
  TC_ASSIGN_OR_RETURN(plan.need.scratch_bytes,
                      ScratchBytes(config, plan.scratch));
  if (plan.ffn.own_signs) plan.need.sign_bytes = OwnSigns::NumBytes(config);
  // Signs are a few bits per weight: far from the limit.
  if (!CheckedAdd(plan.need.kv_bytes + plan.need.sign_bytes,
                  plan.need.scratch_bytes)
           .has_value()) {
    return Fail(ErrorCode::kResourceExhausted,
                "a context of {} positions needs more memory than can be "
                "addressed: use a smaller one (-c)",
                context);
  }
  return plan;
}

Status CheckFits(const SessionPlan& plan, uint64_t ram_bytes) {
  if (plan.need.total() <= ram_bytes) return {};
  return Fail(
      ErrorCode::kResourceExhausted,
      "a context of {} positions needs {} (KV cache {}, activations "
      "{}{}), more than the {} of RAM here: use a smaller context (-c), "
      "an 8-bit KV cache (-ctk q8_0 -ctv q8_0) or a smaller batch (-b)",
      plan.kv.context, FormatBytes(plan.need.total()),
      FormatBytes(plan.need.kv_bytes), FormatBytes(plan.need.scratch_bytes),
      plan.need.sign_bytes == 0
          ? ""
          : ", signs " + FormatBytes(plan.need.sign_bytes),
      FormatBytes(ram_bytes));
}

Result<MemoryNeed> PlanMemory(const model::Config& config,
                              const SessionOptions& options) {
  TC_ASSIGN_OR_RETURN(const SessionPlan plan, PlanSession(config, options));
  return plan.need;
}

uint64_t KvBytesPerToken(const model::Config& config,
                         const SessionOptions& options, int64_t position) {
  const auto layout =
      PlanKvCache(config, options.k_type, options.v_type, position + 1);
  TC_CHECK(layout.has_value());
  return layout->BytesRead(position + 1);
}

uint64_t WeightBytesPerToken(const model::Model& model, FfnMode ffn) {
  return WeightBytesPerBatch(model, ffn, 1);
}

uint64_t FixedWeightBytesPerToken(const model::Model& model) {
  return FixedWeightBytes(model, 1);
}

uint64_t WeightBytesPerBatch(const model::Model& model, FfnMode ffn,
                             uint64_t num_tokens) {
  uint64_t num_bytes = FixedWeightBytes(model, num_tokens);
  for (const model::LayerWeights& layer : model.weights().layers) {
    num_bytes += FfnMatrixBytes(model.config().ffn, layer.ffn, num_tokens);
    if (ffn != FfnMode::kFast) continue;
    const model::PredictorWeights& p = layer.predictor;
    num_bytes += SumOfBytes({p.up, p.up_bias, p.down, p.down_bias});
  }
  return num_bytes;
}

}  // namespace thermocline::engine
