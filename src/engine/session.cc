#include "engine/session.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/ffn/free_selector.h"
#include "engine/ffn/neuron_ffn.h"
#include "engine/ffn/predictor_check.h"
#include "engine/forward.h"
#include "engine/kv/kv_cache.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "engine/session_plan.h"
#include "model/tensor_roles.h"
#include "os/memory.h"
#include "os/thread_pool.h"

namespace thermocline::engine {
namespace {

using text::TokenId;

// Everything a session allocates.
struct Resources {
  std::unique_ptr<os::ThreadPool> pool;
  os::AlignedBuffer scratch;
  KvCache cache;
};

class SessionImpl final : public Session {
 public:
  SessionImpl(std::shared_ptr<const model::Model> model,
              const SessionOptions& options, const SessionPlan& plan,
              Resources resources)
      : model_(std::move(model)),
        options_(options),
        plan_(plan),
        resources_(std::move(resources)),
        scratch_(MakeScratch(model_->config(), plan_.scratch,
                             resources_.scratch.data())),
        compute_{.pool = resources_.pool.get(),
                 .kernels = &kernels::KernelsFor(options.isa),
                 .rounded_rows = scratch_.rounded_rows,
                 .tiles = scratch_.tiles,
                 .tile_bytes = scratch_.tile_bytes,
                 .profile = options.profile},
        signs_(plan_.ffn.own_signs
                   ? std::optional(OwnSigns::Make(model_->config(),
                                                  model_->weights(), compute_))
                   : std::nullopt),
        forward_(model_.get(), &compute_, &scratch_, &resources_.cache,
                 ffn_parts(), static_cast<size_t>(options_.dense_from),
                 &options_.observer) {}

  // Whether the model and its predictors belong together.
  Status Check() { return CheckSelfTests(ffn_parts()); }

  Status Decode(std::span<const TokenId> tokens, LogitsOf which,
                std::span<float> logits) override {
    TC_RETURN_IF_ERROR(CheckTokens(tokens));
    const size_t num_rows = which == LogitsOf::kNone   ? 0
                            : which == LogitsOf::kLast ? 1
                                                       : tokens.size();
    TC_CHECK(which == LogitsOf::kNone ||
             logits.size() == num_rows * vocab_size());
    const size_t batch = static_cast<size_t>(plan_.scratch.batch);
    for (size_t begin = 0; begin < tokens.size(); begin += batch) {
      const size_t end = std::min(begin + batch, tokens.size());
      std::span<float> batch_logits;
      if (which == LogitsOf::kAll) {
        batch_logits =
            logits.subspan(begin * vocab_size(), (end - begin) * vocab_size());
      } else if (which == LogitsOf::kLast && end == tokens.size()) {
        batch_logits = logits;
      }
      TC_RETURN_IF_ERROR(RunBatch(tokens, begin, end, batch_logits));
    }
    position_ += static_cast<int64_t>(tokens.size());
    return {};
  }

  int64_t position() const override { return position_; }
  int64_t context() const override { return plan_.kv.context; }
  int num_threads() const override { return resources_.pool->num_threads(); }
  kernels::Isa isa() const override { return compute_.kernels->isa; }
  FfnMode ffn() const override { return plan_.ffn.mode; }
  PredictorChoice predictor() const override { return plan_.ffn.predictor; }
  SparseTotals sparse_totals() const override { return totals_; }
  const MemoryNeed& memory() const override { return plan_.need; }
  const model::Model& model() const override { return *model_; }

  void Truncate(int64_t length) override {
    TC_CHECK(length >= 0 && length <= position_);
    position_ = length;
  }

 private:
  FfnParts ffn_parts() {
    return {.model = model_.get(),
            .mode = plan_.ffn.mode,
            .predictor = plan_.ffn.predictor,
            .signs = signs_ ? &*signs_ : nullptr,
            .compute = &compute_,
            .scratch = &scratch_,
            .board = &board_,
            .totals = &totals_};
  }

  size_t vocab_size() const {
    return static_cast<size_t>(model_->config().vocab_size);
  }

  Status CheckTokens(std::span<const TokenId> tokens) const {
    if (tokens.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "there are no tokens to decode");
    }
    const int64_t num_left = context() - position_;
    if (tokens.size() > static_cast<uint64_t>(num_left)) {
      return Fail(ErrorCode::kResourceExhausted,
                  "no room for {}: {} of {} left: use a larger context (-c)",
                  Plural(tokens.size(), "token"), num_left,
                  Plural(context(), "position"));
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= model_->config().vocab_size) {
        return Fail(ErrorCode::kInvalidArgument,
                    "token {} (number {}) is outside the vocabulary of {}",
                    tokens[i], i, model_->config().vocab_size);
      }
    }
    return {};
  }

  // tokens[begin, end) of one Decode call.
  Status RunBatch(std::span<const TokenId> tokens, size_t begin, size_t end,
                  std::span<float> logits) {
    const size_t num_layers = model_->weights().layers.size();
    const auto between_layers = [&](int64_t num_done) {
      if (tokens.size() > 1) {
        const size_t num_new =
            (end - begin) * static_cast<size_t>(num_done) / num_layers;
        ReportProgress(options_.progress, "prompt", begin + num_new,
                       tokens.size());
      }
      return options_.cancel == nullptr || !options_.cancel->load();
    };
    compute_.batch_tokens = options_.products_batch > 0
                                ? static_cast<size_t>(options_.products_batch)
                                : end - begin;
    compute_.is_batch = end - begin > 1;
    const SparseTotals before = totals_;
    // By reference: a std::function that copied the captures would allocate.
    const Status status = forward_.Run(tokens.subspan(begin, end - begin),
                                       position_ + static_cast<int64_t>(begin),
                                       std::cref(between_layers), logits);
    if (status.has_value() && end - begin == 1 && ffn() != FfnMode::kDense) {
      ++totals_.num_tokens;
    } else {
      totals_ = before;  // of single tokens alone
    }
    return status;
  }

  std::shared_ptr<const model::Model> model_;
  SessionOptions options_;
  SessionPlan plan_;
  Resources resources_;
  Scratch scratch_;
  Compute compute_;
  PieceBoard board_;
  SparseTotals totals_;
  std::optional<OwnSigns> signs_;
  Forward forward_;
  int64_t position_ = 0;
};

Status CheckAlignment(const model::Model& model) {
  if (model::VectorsAreAligned(model.weights())) return {};
  return Fail(ErrorCode::kUnsupported,
              "{}: its tensors do not lie at multiples of 4 bytes: the file "
              "was written with an unusual general.alignment",
              model.file().path());
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Create(
    std::shared_ptr<const model::Model> model, const SessionOptions& options) {
  TC_CHECK(model != nullptr);
  const model::Config& config = model->config();
  TC_ASSIGN_OR_RETURN(const SessionPlan plan, PlanSession(config, options));
  TC_RETURN_IF_ERROR(CheckAlignment(*model));
  TC_RETURN_IF_ERROR(CheckFits(plan, os::ReadMemoryInfo().total_bytes));
  if (model->neuron_order() != nullptr && plan.scratch.ffn == FfnMode::kDense) {
    LogInfo("the split's order of neurons changes nothing with --ffn dense");
  }
  if (config.context_length > 0 && plan.kv.context > config.context_length) {
    LogWarning(
        "a context of {} positions is beyond the {} that this model was "
        "trained with: expect nonsense past them",
        plan.kv.context, config.context_length);
  }
  TC_ASSIGN_OR_RETURN(KvCache cache, KvCache::Create(plan.kv));
  auto scratch = os::AlignedBuffer::Allocate(plan.need.scratch_bytes);
  if (!scratch.has_value()) {
    return Annotate("activations of a session", scratch.error());
  }
  TC_ASSIGN_OR_RETURN(
      auto pool,
      os::ThreadPool::Create({.num_threads = plan.scratch.num_threads}));
  auto session = std::make_unique<SessionImpl>(
      std::move(model), options, plan,
      Resources{std::move(pool), *std::move(scratch), std::move(cache)});
  TC_RETURN_IF_ERROR(session->Check());
  return session;
}

}  // namespace thermocline::engine
