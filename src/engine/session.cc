#include "engine/session.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

namespace thermocline::engine {
namespace {

using text::TokenId;

class SessionImpl final : public Session {
 public:
  SessionImpl(std::unique_ptr<Runtime> runtime, const SessionOptions& options)
      : runtime_(std::move(runtime)),
        options_(options),
        sequence_(runtime_->NewSequence()) {}

  Status Decode(std::span<const TokenId> tokens, Phase phase, LogitsOf which,
                std::span<float> logits) override {
    if (tokens.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "there are no tokens to decode");
    }
    const size_t num_rows =
        BatchRun{.tokens = tokens, .logits = which}.num_logit_rows();
    TC_CHECK(which == LogitsOf::kNone ||
             logits.size() == num_rows * vocab_size());
    const int64_t before = position();
    TC_RETURN_IF_ERROR(sequence_.Reserve(static_cast<int64_t>(tokens.size())));
    const auto batch = static_cast<size_t>(runtime_->plan().engine.max_rows);
    for (size_t begin = 0; begin < tokens.size(); begin += batch) {
      const size_t end = std::min(begin + batch, tokens.size());
      const bool is_last = end == tokens.size();
      std::span<float> rows;
      if (which == LogitsOf::kAll) {
        rows =
            logits.subspan(begin * vocab_size(), (end - begin) * vocab_size());
      } else if (which == LogitsOf::kLast && is_last) {
        rows = logits;
      }
      const BatchRun run = {.sequence = &sequence_,
                            .tokens = tokens.subspan(begin, end - begin),
                            .phase = phase,
                            .logits = which == LogitsOf::kLast && !is_last
                                          ? LogitsOf::kNone
                                          : which};
      const Status status = RunBatch(run, begin, tokens.size(), rows);
      if (!status.has_value()) {
        sequence_.Truncate(before);
        return status;
      }
    }
    return {};
  }

  int64_t position() const override { return sequence_.length(); }
  int64_t context() const override { return sequence_.context(); }
  int num_threads() const override { return runtime_->pool().num_threads(); }
  kernels::Isa isa() const override { return options_.isa; }
  FfnMode ffn() const override { return engine().ffn(); }
  PredictorChoice predictor() const override { return engine().predictor(); }
  SparseTotals sparse_totals() const override {
    return engine().sparse_totals();
  }
  const WeightStream* stream() const override { return engine().stream(); }
  StreamTotals stream_totals() const override {
    return engine().stream_totals();
  }
  const MemoryPlan& memory() const override { return runtime_->plan().memory; }
  const Placement& placement() const override {
    return runtime_->plan().engine.placement;
  }
  std::string prompt_device() const override {
    return engine().prompt_device();
  }
  npu::StaticTimes prompt_times() const override {
    return engine().prompt_times();
  }
  const model::Model& model() const override { return engine().model(); }

  void Truncate(int64_t length) override { sequence_.Truncate(length); }

 private:
  Engine& engine() const { return runtime_->engine(); }
  size_t vocab_size() const { return model().config().vocab_size; }

  // The run's tokens are [begin, ..) of the num_tokens of one call.
  Status RunBatch(const BatchRun& run, size_t begin, size_t num_tokens,
                  std::span<float> logits) {
    const size_t num_layers = model().weights().layers.size();
    const auto report = [&](size_t num_done) {
      const size_t num_new = run.tokens.size() * num_done / num_layers;
      ReportProgress(options_.progress, "prompt", begin + num_new, num_tokens);
    };
    PassHooks hooks = {.cancel = options_.cancel};
    // By reference: a std::function that copied the captures would allocate.
    if (num_tokens > 1) hooks.layers_done = std::cref(report);
    return engine().Run({{&run, 1}}, logits, hooks);
  }

  std::unique_ptr<Runtime> runtime_;
  SessionOptions options_;
  KvSequence sequence_;
};

}  // namespace

Result<std::unique_ptr<Session>> Session::Create(
    std::shared_ptr<const model::Model> model, const SessionOptions& options) {
  TC_ASSIGN_OR_RETURN(auto runtime, Runtime::Create(std::move(model), options));
  return std::make_unique<SessionImpl>(std::move(runtime), options);
}

}  // namespace thermocline::engine
