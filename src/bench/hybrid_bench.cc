#include "bench/hybrid_bench.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "bench/greedy_choice.h"
#include "bench/hybrid_meter.h"
#include "bench/workload.h"

namespace thermocline::bench {
namespace {

// One budget: a device, a session on it, and every prompt once.
class HybridRun {
 public:
  HybridRun(const HybridBenchOptions& options,
            std::shared_ptr<const model::Model> model)
      : options_(options),
        model_(std::move(model)),
        choice_(*model_),
        logits_(model_->config().vocab_size) {}

  Result<HybridRow> Run(const std::optional<uint64_t>& vram,
                        std::span<const PickedPrompt> prompts) {
    TC_ASSIGN_OR_RETURN(device_, options_.open_device());
    meter_.emplace(device_.get());
    engine::SessionOptions session = options_.session;
    session.device = device_;
    session.budget.vram = vram;
    session.work = &*meter_;
    session.times = meter_->times();
    TC_ASSIGN_OR_RETURN(session_, engine::Session::Create(model_, session));
    for (const PickedPrompt& prompt : prompts) {
      TC_RETURN_IF_ERROR(RunPrompt(prompt));
    }
    HybridRow row =
        meter_->Row(model_->config(), session_->ffn(), session_->placement(),
                    session_->memory(), options_.rates);
    row.vram = vram;
    return row;
  }

 private:
  Status RunPrompt(const PickedPrompt& prompt) {
    session_->Truncate(0);
    TC_RETURN_IF_ERROR(
        session_->Prompt(prompt.tokens, engine::LogitsOf::kLast, logits_));
    TC_RETURN_IF_ERROR(NextToken());
    meter_->Begin(session_->sparse_totals());
    const int64_t last = options_.test.num_generate;
    for (int64_t i = 2; i < last; ++i) {
      TC_RETURN_IF_ERROR(NextToken());
      ReportProgress(options_.progress, "tokens", static_cast<uint64_t>(i),
                     static_cast<uint64_t>(last));
    }
    meter_->End(session_->sparse_totals(), static_cast<uint64_t>(last - 2));
    return {};
  }

  Status NextToken() {
    const text::TokenId token = choice_.Choose(logits_);
    return session_->Generate({&token, 1}, engine::LogitsOf::kLast, logits_);
  }

  const HybridBenchOptions& options_;
  std::shared_ptr<const model::Model> model_;
  GreedyChoice choice_;
  std::vector<float> logits_;
  std::shared_ptr<device::Device> device_;
  std::optional<HybridMeter> meter_;
  std::unique_ptr<engine::Session> session_;  // before what it uses is gone
};

}  // namespace

double HybridRow::tokens_per_s() const {
  return costs.seconds > 0.0
             ? static_cast<double>(costs.num_tokens) / costs.seconds
             : 0.0;
}

double HybridRow::bound_seconds() const {
  TC_CHECK(rates.has_value());
  const auto seconds = [](uint64_t bytes, double rate) {
    return static_cast<double>(bytes) / rate;
  };
  const double beside =
      static_cast<double>(costs.num_tokens * num_device_layers) *
      rates->layer_seconds;
  if (rates->link > 0.0) {
    return seconds(costs.device_bytes, rates->device) +
           seconds(costs.host_bytes, rates->host) +
           seconds(costs.up_bytes.value_or(0), rates->link) + beside;
  }
  return seconds(costs.device_bytes - costs.device_neuron_bytes,
                 rates->device) +
         seconds(costs.host_bytes - costs.host_neuron_bytes, rates->host) +
         std::max(seconds(costs.device_neuron_bytes, rates->device),
                  seconds(costs.host_neuron_bytes, rates->host)) +
         beside;
}

Result<std::vector<HybridRow>> RunHybridBench(
    std::shared_ptr<const model::Model> model,
    const HybridBenchOptions& options) {
  const std::vector<BenchPrompt> prompts =
      PromptsOr(options.prompts, options.test, model->config().vocab_size);
  TC_ASSIGN_OR_RETURN(const std::vector<PickedPrompt> picked,
                      PickPrompts(prompts, options.test,
                                  options.session.context, options.source));
  std::vector<HybridRow> rows;
  for (const std::optional<uint64_t>& vram : options.vram) {
    TC_ASSIGN_OR_RETURN(rows.emplace_back(),
                        HybridRun(options, model).Run(vram, picked));
  }
  return rows;
}

}  // namespace thermocline::bench
