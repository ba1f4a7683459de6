#include "bench/timed_bench.h"

#include <algorithm>
#include <utility>

#include "bench/hybrid_meter.h"
#include "device/sim/sim_device.h"
#include "engine/device/timed_pass.h"
#include "engine/ffn/ffn_choice.h"
#include "neuron/neuron_set.h"
#include "neuron/trace.h"

namespace thermocline::bench {
namespace {

// The generated tokens of a trace, as sets of each layer.
class TracedSets {
 public:
  static Result<TracedSets> Open(const std::string& path,
                                 const model::Config& config) {
    TC_ASSIGN_OR_RETURN(neuron::TraceReader reader,
                        neuron::TraceReader::Open(path));
    const neuron::TraceHeader& header = reader.header();
    if (header.num_layers != config.num_layers ||
        header.num_neurons != MaxFfnWidth(config)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: a trace of {} layers of {} neurons; the model has {} of "
                  "{}",
                  path, header.num_layers, header.num_neurons,
                  config.num_layers, MaxFfnWidth(config));
    }
    return TracedSets(std::move(reader));
  }

  std::span<const neuron::NeuronSet> sets() const { return sets_; }

  // false: there are no more.
  Result<bool> Next() {
    neuron::TraceToken token;
    do {
      TC_ASSIGN_OR_RETURN(const bool is_there, reader_.Next(token, lists_));
      if (!is_there) return false;
    } while (!token.is_generated);
    for (size_t i = 0; i < sets_.size(); ++i) {
      sets_[i].Clear();
      for (const uint32_t neuron : lists_[i]) sets_[i].Add(neuron);
    }
    return true;
  }

 private:
  explicit TracedSets(neuron::TraceReader reader) : reader_(std::move(reader)) {
    const size_t num_neurons = reader_.header().num_neurons;
    const size_t num_words = neuron::WordsOf(num_neurons);
    words_.resize(reader_.header().num_layers * num_words);
    for (size_t i = 0; i < reader_.header().num_layers; ++i) {
      sets_.push_back({words_.data() + i * num_words, num_neurons});
    }
  }

  neuron::TraceReader reader_;
  std::vector<std::vector<uint32_t>> lists_;
  std::vector<uint64_t> words_;
  std::vector<neuron::NeuronSet> sets_;
};

// One budget.
Result<HybridRow> RunTimed(const std::shared_ptr<const model::Model>& model,
                           const TimedBenchOptions& options,
                           const std::optional<uint64_t>& vram) {
  TC_ASSIGN_OR_RETURN(TracedSets traced,
                      TracedSets::Open(options.trace_path, model->config()));
  device::SimCounts counts;
  const std::shared_ptr<device::Device> device = device::MakeSim(
      options.machine,
      {.time_only = true,
       .counts = [&](const kernels::DeviceOp&) { return counts; },
       .timeline = options.session.timeline});
  HybridMeter meter(device.get());
  engine::SessionOptions session = options.session;
  session.device = device;
  session.budget.vram = vram;
  session.work = &meter;
  session.context =
      options.depth + static_cast<int64_t>(options.num_tokens) + 1;
  TC_ASSIGN_OR_RETURN(engine::RuntimePlan plan,
                      engine::PlanRuntime(*model, session));
  TC_ASSIGN_OR_RETURN(
      const engine::FfnChoice choice,
      ChooseFfn(model->config(), session.ffn, session.predictor));
  TC_ASSIGN_OR_RETURN(const auto pass,
                      engine::TimedPass::Make(
                          {.model = model, .plan = plan, .counts = &counts}));
  TC_RETURN_IF_ERROR(pass->Skip(options.depth));
  uint64_t num_tokens = 0;
  for (; num_tokens <= options.num_tokens; ++num_tokens) {
    TC_ASSIGN_OR_RETURN(const bool is_there, traced.Next());
    if (!is_there) break;
    TC_RETURN_IF_ERROR(pass->Generate(traced.sets(), traced.sets()));
    // The first one brings keys over.
    if (num_tokens == 0) meter.Begin(pass->totals());
    ReportProgress(options.progress, "tokens", num_tokens, options.num_tokens);
  }
  if (num_tokens < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: has fewer than two generated tokens", options.trace_path);
  }
  meter.End(pass->totals(), num_tokens - 1);
  HybridRow row = meter.Row(model->config(), choice.mode, plan.engine.placement,
                            plan.memory, std::nullopt);
  row.vram = vram;
  row.host_bytes.reset();
  return row;
}

}  // namespace

Result<std::vector<HybridRow>> RunTimedBench(
    std::shared_ptr<const model::Model> model,
    const TimedBenchOptions& options) {
  std::vector<HybridRow> rows;
  for (const std::optional<uint64_t>& vram : options.vram) {
    TC_ASSIGN_OR_RETURN(rows.emplace_back(), RunTimed(model, options, vram));
  }
  return rows;
}

}  // namespace thermocline::bench
