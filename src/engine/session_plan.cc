#include "engine/session_plan.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "base/units.h"
#include "engine/ffn/free_selector.h"
#include "kernels/kv_group.h"
#include "model/weight_bytes.h"
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
  return model::FixedWeightBytes(model.weights(), 1);
}

uint64_t WeightBytesPerBatch(const model::Model& model, FfnMode ffn,
                             uint64_t num_tokens) {
  const model::Weights& weights = model.weights();
  uint64_t num_bytes = model::FixedWeightBytes(weights, num_tokens);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const model::LayerWeights& layer = weights.layers[i];
    num_bytes += model::FfnMatrixBytes(model.config().layers[i].ffn, layer.ffn,
                                       num_tokens);
    if (ffn == FfnMode::kFast) num_bytes += model::PredictorBytes(layer);
  }
  return num_bytes;
}

}  // namespace thermocline::engine
