// Speed of a model that is too large for this machine, in virtual time: its
// shape, and a trace of which neurons fire.
#ifndef THERMOCLINE_BENCH_TIMED_BENCH_H_
#define THERMOCLINE_BENCH_TIMED_BENCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "bench/hybrid_bench.h"
#include "device/sim/machine.h"
#include "engine/session.h"
#include "model/model.h"

namespace thermocline::bench {

struct TimedBenchOptions {
  std::vector<std::optional<uint64_t>> vram = {std::nullopt};
  device::Machine machine;
  std::string trace_path;     // of this model, or of one of its shape
  int64_t depth = 256;        // positions that the KV cache holds before
  uint64_t num_tokens = 128;  // generated ones of the trace, at most
  // The bench's own: context, device, budget, work.
  engine::SessionOptions session;
  ProgressFn progress;
};

// The model's matrices need not be in memory (Model::ShapeOf). Tokens come one
// behind the other, whatever prompts they are of. Nothing is computed: a
// layer's candidates are taken to be those that fired.
// kInvalidArgument: the trace is of another shape, or none of its tokens was
// generated. Errors of neuron::TraceReader, engine::PlanRuntime and TimedPass.
Result<std::vector<HybridRow>> RunTimedBench(
    std::shared_ptr<const model::Model> model,
    const TimedBenchOptions& options);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_TIMED_BENCH_H_
