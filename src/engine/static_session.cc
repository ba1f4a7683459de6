#include "engine/static_session.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "base/remedy.h"
#include "engine/runtime.h"
#include "os/memory.h"
#include "tensor/codec.h"

namespace thermocline::engine {
namespace {

using text::TokenId;

// [S, D] the stream of all rows that a call can have, and [D] a learned
// position; saturates.
uint64_t ActivationBytes(const model::Config& config, int64_t context) {
  const auto num_elems =
      CheckedMul(static_cast<uint64_t>(context) + 1, uint64_t{config.width});
  const auto num_bytes =
      num_elems ? CheckedMul(*num_elems, sizeof(float)) : std::nullopt;
  return num_bytes.value_or(UINT64_MAX);
}

class StaticSession final : public Session {
 public:
  StaticSession(std::shared_ptr<const model::Model> model,
                const StaticSessionOptions& options, MemoryPlan memory,
                std::unique_ptr<npu::StaticModel> graphs,
                os::AlignedBuffer activations)
      : model_(std::move(model)),
        options_(options),
        memory_(memory),
        graphs_(std::move(graphs)),
        activations_(std::move(activations)) {
    tokens_.reserve(static_cast<size_t>(context()));
  }

  Status Decode(std::span<const TokenId> tokens, Phase phase, LogitsOf which,
                std::span<float> logits) override;

  int64_t position() const override {
    return static_cast<int64_t>(tokens_.size());
  }
  int64_t context() const override { return options_.graphs.context; }
  int num_threads() const override {
    return options_.graphs.compile.num_threads;
  }
  kernels::Isa isa() const override { return kernels::BestIsa(); }
  FfnMode ffn() const override { return FfnMode::kDense; }
  const MemoryPlan& memory() const override { return memory_; }
  std::string prompt_device() const override { return graphs_->Describe(); }
  npu::StaticTimes prompt_times() const override { return graphs_->times(); }
  std::optional<uint64_t> device_token_bytes(int64_t position) const override {
    return npu::TokenBytes(*model_, options_.graphs, position);
  }
  const model::Model& model() const override { return *model_; }
  void Truncate(int64_t length) override {
    TC_CHECK(length >= 0 && length <= position());
    tokens_.resize(static_cast<size_t>(length));
  }

 private:
  const model::Config& config() const { return model_->config(); }
  std::span<float> activations() const {
    return activations_.as<float>(activations_.size() / sizeof(float));
  }
  std::span<float> rows() const {
    return activations().first(static_cast<size_t>(context()) * config().width);
  }
  std::span<float> learned() const {
    return activations().subspan(rows().size(), config().width);
  }
  Status Check(std::span<const TokenId> tokens) const;
  Status CheckFinite(std::span<const float> logits) const;
  // What the graphs know is what tokens_ says.
  Status Follow();
  // The last layer's output for tokens behind those of the graphs.
  Result<std::span<float>> Run(std::span<const TokenId> tokens);
  void Embed(TokenId token, int64_t position, std::span<float> x);

  std::shared_ptr<const model::Model> model_;
  StaticSessionOptions options_;
  MemoryPlan memory_;
  std::unique_ptr<npu::StaticModel> graphs_;
  os::AlignedBuffer activations_;  // ActivationBytes
  std::vector<TokenId> tokens_;    // of the sequence
};

Status StaticSession::Check(std::span<const TokenId> tokens) const {
  if (tokens.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "there are no tokens to decode");
  }
  for (const TokenId token : tokens) {
    if (token < 0 || std::cmp_greater_equal(token, config().vocab_size)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "token {} is outside the vocabulary of {}", token,
                  config().vocab_size);
    }
  }
  if (std::cmp_greater(tokens.size(), context() - position())) {
    return Fail(ErrorCode::kResourceExhausted,
                "{} tokens behind {}: the context has {} positions",
                tokens.size(), position(), context());
  }
  return {};
}

// As the host's, which no sampler has to doubt.
Status StaticSession::CheckFinite(std::span<const float> logits) const {
  bool are_finite = true;  // without a way out: so it becomes vectors
  for (const float logit : logits) are_finite &= std::isfinite(logit);
  if (are_finite) return {};
  return Fail(ErrorCode::kCorrupt, Advice{Remedy::kCheckTensors},
              "{}: the logits are not finite: the weights are damaged, or "
              "{} computes with numbers too small for them",
              model_->file().path(), graphs_->Describe());
}

Status StaticSession::Decode(std::span<const TokenId> tokens, Phase /*phase*/,
                             LogitsOf which, std::span<float> logits) {
  const size_t num_rows =
      BatchRun{.tokens = tokens, .logits = which}.num_logit_rows();
  TC_CHECK(which == LogitsOf::kNone ||
           logits.size() == num_rows * config().vocab_size);
  TC_RETURN_IF_ERROR(Check(tokens));
  TC_RETURN_IF_ERROR(Follow());
  TC_ASSIGN_OR_RETURN(const std::span<float> stream, Run(tokens));
  if (which != LogitsOf::kNone) {
    TC_RETURN_IF_ERROR(
        graphs_->Logits(stream.last(num_rows * config().width), logits));
    TC_RETURN_IF_ERROR(CheckFinite(logits));
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return {};
}

Status StaticSession::Follow() {
  if (graphs_->length() == position()) return {};
  if (options_.graphs.kv == npu::KvForm::kAppend) {
    if (graphs_->length() > position()) graphs_->Truncate(position());
  } else {
    graphs_->Truncate(0);
  }
  const auto known = static_cast<size_t>(graphs_->length());
  if (known == tokens_.size()) return {};
  TC_RETURN_IF_ERROR(Run(std::span(tokens_).subspan(known)));
  return {};
}

Result<std::span<float>> StaticSession::Run(std::span<const TokenId> tokens) {
  const size_t width = config().width;
  const std::span<float> stream = rows().first(tokens.size() * width);
  for (size_t i = 0; i < tokens.size(); ++i) {
    Embed(tokens[i], graphs_->length() + static_cast<int64_t>(i),
          stream.subspan(i * width, width));
  }
  TC_RETURN_IF_ERROR(
      graphs_->Run(npu::PackedRows(stream, width), nullptr, [this] {
        return options_.cancel != nullptr && options_.cancel->load();
      }));
  return stream;
}

void StaticSession::Embed(TokenId token, int64_t position, std::span<float> x) {
  const model::Weights& weights = model_->weights();
  const TensorView& table = weights.token_embedding;
  DequantizeRow(table.dtype, table.row(static_cast<uint64_t>(token)), x);
  const TensorView& positions = weights.position_embedding;
  if (!positions) return;
  DequantizeRow(positions.dtype, positions.row(static_cast<uint64_t>(position)),
                learned());
  for (size_t i = 0; i < x.size(); ++i) x[i] += learned()[i];
}

// A token's learned position is read from a table.
Status CheckContext(const model::Config& config, int64_t context) {
  if (context < 1) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kContext},
                "a context of {} positions: there is at least one", context);
  }
  if (config.num_positions == 0 || context <= config.num_positions) return {};
  return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kContext},
              "a context of {} positions: this model learned {} and has no "
              "others",
              context, config.num_positions);
}

// The weights of the file, the tensors of the graphs, and their rows.
Result<MemoryPlan> PlanStatic(const model::Model& model,
                              const npu::StaticOptions& graphs) {
  const WeightMemory weights = WeightMemory::Of(model);
  MemoryPlan plan;
  plan.host.weights = weights.num_bytes;
  plan.host.bundles = weights.bundle_bytes;
  plan.holds_weights = weights.are_held;
  TC_ASSIGN_OR_RETURN(plan.host.graphs,
                      npu::StaticBytes(model.config(), graphs));
  plan.host.scratch = ActivationBytes(model.config(), graphs.context);
  return plan;
}

}  // namespace

Result<std::unique_ptr<Session>> MakeStaticSession(
    std::shared_ptr<const model::Model> model,
    std::shared_ptr<npu::StaticDevice> device,
    const StaticSessionOptions& options) {
  TC_CHECK(model != nullptr && device != nullptr);
  TC_RETURN_IF_ERROR(CheckContext(model->config(), options.graphs.context));
  StaticSessionOptions with_head = options;
  with_head.graphs.has_head = true;
  TC_ASSIGN_OR_RETURN(const MemoryPlan memory,
                      PlanStatic(*model, with_head.graphs));
  TC_RETURN_IF_ERROR(
      CheckMemory(memory, options.budget, os::ReadMemoryInfo().total_bytes));
  TC_ASSIGN_OR_RETURN(
      auto graphs,
      npu::StaticModel::Create(model, std::move(device), with_head.graphs));
  auto activations = os::AlignedBuffer::Allocate(memory.host.scratch);
  if (!activations.has_value()) {
    return Annotate("rows of a context", activations.error());
  }
  return std::make_unique<StaticSession>(std::move(model), with_head, memory,
                                         std::move(graphs),
                                         *std::move(activations));
}

}  // namespace thermocline::engine
