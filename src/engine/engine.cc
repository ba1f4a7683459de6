#include "engine/engine.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/remedy.h"
#include "base/units.h"
#include "compute/stage_times.h"
#include "engine/device/device_model.h"
#include "engine/engine_plan.h"
#include "engine/ffn/ffn_layers.h"
#include "engine/ffn/predictor_check.h"
#include "engine/forward/host_forward.h"
#include "engine/forward/prompt_chooser.h"
#include "engine/scratch.h"
#include "engine/stream/model_stream.h"
#include "model/tensor_roles.h"
#include "os/memory.h"
#include "predictor/training_free.h"

namespace thermocline::engine {
namespace {

class EngineImpl final : public Engine {
 public:
  EngineImpl(std::shared_ptr<const model::Model> model, EngineOptions options,
             EnginePlan plan, os::ThreadPool* pool, os::AlignedBuffer memory,
             ModelStream stream)
      : model_(std::move(model)),
        options_(std::move(options)),
        plan_(std::move(plan)),
        memory_(std::move(memory)),
        scratch_(MakeScratch(model_->config(), plan_.scratch, memory_.data())),
        timeline_(options_.timeline != nullptr
                      ? std::optional<compute::StageTimeline>(options_.timeline)
                      : std::nullopt),
        compute_{.pool = pool,
                 .kernels = &kernels::KernelsFor(options_.isa),
                 .scratch = scratch_.products,
                 .times = options_.times,
                 .work = options_.work,
                 .timeline = timeline_ ? &*timeline_ : nullptr},
        stream_(std::move(stream)),
        records_(model_->weights(), RecordMaker()) {
    if (stream_.any() != nullptr) stream_totals_.unit = stream_.any()->unit();
  }

  // The rest of construction, which can fail.
  Status Start() {
    if (plan_.ffn.own_signs) {
      TC_ASSIGN_OR_RETURN(
          signs_, predictor::OwnSigns::Make(model_->config(), model_->weights(),
                                            compute_));
    }
    if (options_.device != nullptr && !options_.placement.empty()) {
      const double begin_s = timeline_ ? timeline_->Now() : 0.0;
      TC_ASSIGN_OR_RETURN(device_model_,
                          LoadDeviceModel({.model = model_.get(),
                                           .placement = &options_.placement,
                                           .layers = &plan_.layers,
                                           .compute = &compute_,
                                           .device = options_.device.get()}));
      if (timeline_) timeline_->AddPass("weights to the device", -1, begin_s);
    }
    MakeForwards();
    stream_.SetPolicyRests(true);
    TC_RETURN_IF_ERROR(CheckSelfTests(ffn_parts(), plan_.ffn.mode,
                                      {scratch_.normed, scratch_.delta}));
    TC_RETURN_IF_ERROR(ChoosePrompts());
    stream_.SetPolicyRests(false);
    return {};
  }

  Status Run(const Batch& batch, std::span<float> logits,
             const PassHooks& hooks) override {
    TC_RETURN_IF_ERROR(Check(batch));
    TC_CHECK(logits.size() ==
             batch.num_logit_rows() * model_->config().vocab_size);
    TC_RETURN_IF_ERROR(Reserve(batch));
    const StreamTotals::OfPhase before = stream_counts();
    Status status = RunPass(batch, logits, hooks);
    if (!status.has_value() && GoesOnWithout(status.error())) {
      LeaveDevice(status.error());
      status = RunPass(batch, logits, hooks);
    }
    if (!status.has_value()) {
      // Also where the pass went well and its file has changed.
      if (prompts_) prompts_->layers()->Forget();
      GiveBack(batch.runs);
      return status;
    }
    for (const BatchRun& run : batch.runs) {
      run.sequence->Advance(static_cast<int64_t>(run.tokens.size()));
    }
    Count(batch);
    if (stream_.any() != nullptr) CountStream(batch, before);
    return {};
  }

  FfnMode ffn() const override { return plan_.ffn.mode; }
  PredictorChoice predictor() const override { return plan_.ffn.predictor; }
  SparseTotals sparse_totals() const override { return totals_; }
  const WeightStream* stream() const override { return stream_.any(); }
  StreamTotals stream_totals() const override { return stream_totals_; }
  std::string prompt_device() const override {
    return prompts_ && !prompts_->layers()->is_given_up() ? prompts_->Describe()
                                                          : "";
  }
  npu::StaticTimes prompt_times() const override {
    return prompts_ ? prompts_->times() : npu::StaticTimes();
  }
  const model::Model& model() const override { return *model_; }

 private:
  int64_t max_rows() const { return options_.max_rows; }

  MakeRecordStore RecordMaker() const {
    if (stream_.records) return stream_.records->Maker();
    if (stream_.experts) return stream_.experts->Maker();
    return options_.make_records;
  }

  // The first device that can.
  Status ChoosePrompts() {
    if (options_.prompts.devices.empty()) return {};
    PromptChooser chooser(
        {.prompts = {.model = model_,
                     .compute = &compute_,
                     .streamed = stream_.layers.get(),
                     .records = stream_.records.get(),
                     .options = &options_.prompts,
                     .generated = plan_.ffn.mode},
         .layers = &plan_.layers,
         .stream = stream_.any(),
         .max_rows = max_rows(),
         .is_observed = static_cast<bool>(options_.observer)});
    TC_ASSIGN_OR_RETURN(prompts_, chooser.Choose(std::bind_front(
                                      &EngineImpl::RunForCheck, this)));
    forwards_.clear();
    MakeForwards();
    return {};
  }

  // A pass that nobody counts, with these prompts or by the host alone.
  Status RunForCheck(NpuPrompt* prompts, const Batch& batch,
                     std::span<float> logits) {
    const StreamTotals before = stream_totals_;
    compute::StageTimes* const times = std::exchange(compute_.times, nullptr);
    compute::StageTimeline* const timeline =
        std::exchange(compute_.timeline, nullptr);
    forwards_.clear();
    MakeForwards(prompts);
    Status status = Run(batch, logits, PassHooks());
    compute_.times = times;
    compute_.timeline = timeline;
    stream_totals_ = before;
    return status;
  }

  void MakeForwards() { MakeForwards(prompts_ ? prompts_->layers() : nullptr); }
  void MakeForwards(PromptLayers* prompts) {
    forwards_.push_back(
        MakeHostForward({.model = model_.get(),
                         .compute = &compute_,
                         .scratch = &scratch_,
                         .ffn = ffn_parts(),
                         .layers = &plan_.layers,
                         .streamed = stream_.layers.get(),
                         .prompts = prompts,
                         .max_rows = static_cast<size_t>(max_rows()),
                         .totals = &totals_,
                         .observer = &options_.observer}));
  }

  Status RunPass(const Batch& batch, std::span<float> logits,
                 const PassHooks& hooks) {
    const SparseTotals before = totals_;
    const double begin_s = timeline_ ? timeline_->Now() : 0.0;
    Status status = ForwardFor(batch).Run(batch, logits, hooks);
    if (status.has_value() && stream_.any() != nullptr) {
      status = stream_.any()->CheckUnchanged();
    }
    if (timeline_) DrawPass(batch, begin_s);
    records_.EndPass();
    stream_.EndPass();
    if (!status.has_value()) totals_ = before;
    return status;
  }

  // Before the sequences grow.
  void DrawPass(const Batch& batch, double begin_s) {
    const size_t num_rows = batch.num_rows();
    const bool has_generated = batch.runs.back().phase == Phase::kGenerate;
    if (has_generated && num_rows == 1) {
      timeline_->AddPass("token", batch.runs[0].sequence->length() + 1,
                         begin_s);
      return;
    }
    timeline_->AddPass(has_generated ? "batch of" : "prompt of",
                       static_cast<int64_t>(num_rows), begin_s);
  }

  // Whether that is a loss of the device (a lost one answers nothing) that the
  // host is to make good.
  bool GoesOnWithout(const Error& error) const {
    return options_.on_device_loss == DeviceLoss::kHost &&
           device_model_ != nullptr && !options_.observer &&
           error.code == ErrorCode::kIo && !options_.device->Info();
  }

  // The host has all weights, and all keys and values (kv/device_kv.h).
  void LeaveDevice(const Error& error) {
    LogWarning("{}: from now on the host computes alone", error.message);
    forwards_.clear();
    device_model_.reset();
    MakeForwards();
  }

  FfnParts ffn_parts() {
    return {.model = model_.get(),
            .predictor = plan_.ffn.predictor,
            .signs = signs_ ? &*signs_ : nullptr,
            .compute = &compute_,
            .scratch = scratch_.ffn,
            .board = &board_,
            .records = &records_,
            .stream = stream_.records.get(),
            .experts = stream_.experts.get(),
            .generated = plan_.ffn.mode,
            .device = device_model_.get()};
  }

  Status Check(const Batch& batch) const {
    if (std::cmp_greater(batch.num_rows(), max_rows())) {
      return Fail(ErrorCode::kInvalidArgument,
                  "a batch of {}: this engine was made for {}",
                  Plural(batch.num_rows(), "token"), max_rows());
    }
    for (size_t i = 0; i < batch.runs.size(); ++i) {
      const BatchRun& run = batch.runs[i];
      TC_CHECK(run.sequence != nullptr);
      TC_CHECK(i == 0 || run.phase == Phase::kGenerate ||
               batch.runs[i - 1].phase == Phase::kPrompt);
      for (size_t j = 0; j < i; ++j) {
        TC_CHECK(batch.runs[j].sequence != run.sequence);
      }
      TC_RETURN_IF_ERROR(CheckTokens(run.tokens));
    }
    return {};
  }

  Status CheckTokens(std::span<const text::TokenId> tokens) const {
    if (tokens.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "there are no tokens to decode");
    }
    const size_t vocab_size = model_->config().vocab_size;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || std::cmp_greater_equal(tokens[i], vocab_size)) {
        return Fail(ErrorCode::kInvalidArgument,
                    "token {} (number {}) is outside the vocabulary of {}",
                    tokens[i], i, vocab_size);
      }
    }
    return {};
  }

  // The first that takes all of the batch; the host's, which is the last, does.
  Forward& ForwardFor(const Batch& batch) const {
    const auto takes_all = [&](const std::unique_ptr<Forward>& forward) {
      return std::ranges::all_of(
          batch.runs, [&](const BatchRun& run) { return forward->Takes(run); });
    };
    const auto found = std::ranges::find_if(forwards_, takes_all);
    TC_CHECK(found != forwards_.end());
    return **found;
  }

  // Room for all, or for none.
  static Status Reserve(const Batch& batch) {
    for (size_t i = 0; i < batch.runs.size(); ++i) {
      const BatchRun& run = batch.runs[i];
      Status status =
          run.sequence->Reserve(static_cast<int64_t>(run.tokens.size()));
      if (status.has_value()) continue;
      GiveBack(batch.runs.first(i));
      return status;
    }
    return {};
  }

  static void GiveBack(std::span<const BatchRun> runs) {
    for (const BatchRun& run : runs) {
      run.sequence->Truncate(run.sequence->length());
    }
  }

  void Count(const Batch& batch) {
    if (ffn() == FfnMode::kDense) return;
    uint64_t num_tokens = 0;
    for (const BatchRun& run : batch.runs) {
      if (run.phase == Phase::kGenerate) num_tokens += run.tokens.size();
    }
    totals_.num_tokens += num_tokens;
    totals_.num_passes += num_tokens > 0 ? 1 : 0;
  }

  StreamTotals::OfPhase stream_counts() const {
    return stream_.any() != nullptr ? stream_.any()->counts()
                                    : StreamTotals::OfPhase();
  }

  // What a pass has read.
  void CountStream(const Batch& batch, const StreamTotals::OfPhase& before) {
    const bool has_prompt = batch.runs.front().phase == Phase::kPrompt;
    StreamTotals::OfPhase& totals =
        has_prompt ? stream_totals_.prompt : stream_totals_.generated;
    const StreamTotals::OfPhase& now = stream_.any()->counts();
    totals.num_rows += batch.num_rows();
    totals.AddSince(before, now);
  }

  std::shared_ptr<const model::Model> model_;
  EngineOptions options_;
  EnginePlan plan_;
  os::AlignedBuffer memory_;
  Scratch scratch_;
  std::optional<compute::StageTimeline> timeline_;
  compute::Compute compute_;
  PieceResults board_;
  ModelStream stream_;
  RecordStores records_;
  SparseTotals totals_;
  StreamTotals stream_totals_;
  std::optional<predictor::OwnSigns> signs_;
  std::unique_ptr<DeviceModel> device_model_;
  std::unique_ptr<ChosenPrompts> prompts_;          // null: the host's
  std::vector<std::unique_ptr<Forward>> forwards_;  // the best ones first
};

Status CheckAlignment(const model::Model& model) {
  if (model::VectorsAreAligned(model.weights())) return {};
  return Fail(ErrorCode::kUnsupported,
              "{}: its tensors do not lie at multiples of 4 bytes: the file "
              "was written with an unusual general.alignment",
              model.file().path());
}

// What reads records past their store.
Status CheckStream(const model::Model& model, const EngineOptions& options,
                   const EnginePlan& plan) {
  const std::string& path = model.file().path();
  if (options.device != nullptr) {
    return Fail(
        ErrorCode::kUnsupported,
        "{}: a part of its weights stays in the file, and a device takes them "
        "from memory: not both yet",
        path);
  }
  if (plan.ffn.own_signs) {
    return Fail(ErrorCode::kUnsupported, Advice{Remedy::kExact},
                "{}: a part of its weights stays in the file, which has no "
                "training-free "
                "predictors: the signs of all gates cannot be taken",
                path);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Create(
    std::shared_ptr<const model::Model> model, const EngineOptions& options,
    os::ThreadPool* pool) {
  TC_CHECK(model != nullptr && pool != nullptr);
  TC_ASSIGN_OR_RETURN(EnginePlan plan, PlanEngine(model->config(), options,
                                                  pool->num_threads()));
  TC_RETURN_IF_ERROR(CheckAlignment(*model));
  auto memory = os::AlignedBuffer::Allocate(plan.scratch_bytes);
  if (!memory.has_value()) {
    return Annotate("activations of a batch", memory.error());
  }
  ModelStream stream;
  if (options.stream) {
    TC_RETURN_IF_ERROR(CheckStream(*model, options, plan));
    TC_ASSIGN_OR_RETURN(stream, ModelStream::Create(*model, *options.stream));
    if (stream.layers) model = stream.layers->model();
  }
  auto engine =
      std::make_unique<EngineImpl>(std::move(model), options, std::move(plan),
                                   pool, *std::move(memory), std::move(stream));
  TC_RETURN_IF_ERROR(engine->Start());
  return engine;
}

}  // namespace thermocline::engine
