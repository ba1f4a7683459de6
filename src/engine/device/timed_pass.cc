#include "engine/device/timed_pass.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "compute/stage_times.h"
#include "engine/device/device_model.h"
#include "engine/engine_plan.h"
#include "engine/ffn/ffn_layers.h"
#include "engine/ffn/sparse_ffn.h"

namespace thermocline::engine {
namespace {

using compute::Stage;

// What a neuron's rows take on the host.
struct HostRows {
  size_t tested = 0;  // of the one that says whether the rest is read
  size_t rest = 0;
};

HostRows RowsOf(const model::FfnWeights& ffn) {
  const size_t up = ffn.up.row_bytes();
  const size_t down = ffn.down_t.row_bytes();
  return ffn.gate ? HostRows{ffn.gate.row_bytes(), up + down}
                  : HostRows{up, down};
}

class Timed final : public TimedPass {
 public:
  explicit Timed(const TimedParts& parts)
      : parts_(parts),
        config_(parts.model->config()),
        weights_(parts.model->weights()),
        compute_{.kernels = &kernels::KernelsFor(parts.plan.engine.isa),
                 .work = parts.plan.engine.work} {
    if (parts.plan.engine.timeline == nullptr) return;
    compute_.timeline = &timeline_.emplace(parts.plan.engine.timeline);
  }

  Status Start() {
    const EngineOptions& options = parts_.plan.engine;
    TC_ASSIGN_OR_RETURN(plan_, PlanEngine(config_, options, 1));
    TC_RETURN_IF_ERROR(Check());
    const double begin_s = timeline_ ? timeline_->Now() : 0.0;
    TC_ASSIGN_OR_RETURN(there_,
                        LoadDeviceModel({.model = parts_.model.get(),
                                         .placement = &options.placement,
                                         .layers = &plan_.layers,
                                         .compute = &compute_,
                                         .device = options.device.get()}));
    if (timeline_) timeline_->AddPass("weights to the device", -1, begin_s);
    TC_ASSIGN_OR_RETURN(
        kv_, KvPool::Create(parts_.plan.kv, parts_.plan.num_kv_pages));
    sequence_.emplace(kv_.get(), options.context);
    const size_t widest = std::max(config_.width, config_.vocab_size);
    row_.resize(widest);
    out_.resize(widest);
    for (const model::RopeConfig& rope : config_.ropes) {
      angles_.resize(std::max(angles_.size(), rope.width / 2));
    }
    words_.resize(neuron::ActiveSets::WordsPerRow(MaxFfnWidth(config_)));
    for (size_t i = 0; i < config_.num_layers; ++i) {
      const DeviceMatrices* matrices = there_->matrices[i].get();
      matrices_.push_back(matrices == nullptr
                              ? nullptr
                              : MakeDeviceMatricesFfn(i, &config_.layers[i].ffn,
                                                      matrices, &compute_,
                                                      &no_scratch_));
    }
    return {};
  }

  Status Skip(int64_t num_positions) override {
    TC_RETURN_IF_ERROR(sequence_->Reserve(num_positions));
    sequence_->Advance(num_positions);
    return {};
  }

  Status Generate(std::span<const neuron::NeuronSet> candidates,
                  std::span<const neuron::NeuronSet> fired) override {
    TC_RETURN_IF_ERROR(sequence_->Reserve(1));
    const double begin_s = timeline_ ? timeline_->Now() : 0.0;
    const SequenceRows run = {.sequence = &*sequence_,
                              .first_position = sequence_->length(),
                              .num_rows = 1};
    parts_.counts->positions = static_cast<uint64_t>(run.first_position) + 1;
    if (there_->kv != nullptr) {
      TC_RETURN_IF_ERROR(there_->kv->Sync({&run, 1}));
    }
    Read(Stage::kEmbed, weights_.token_embedding.row_bytes());
    for (size_t i = 0; i < config_.num_layers; ++i) {
      if (timeline_) timeline_->SetLayer(static_cast<int32_t>(i));
      TC_RETURN_IF_ERROR(Attend(i, run));
      if (there_->neurons[i] != nullptr && HasPredictor(i)) {
        // A predictor there begins its layer's neurons.
        parts_.counts->listed =
            candidates[i].CountIn(there_->neurons[i]->resident());
        parts_.counts->opened =
            fired[i].CountIn(there_->neurons[i]->resident());
      }
      TC_RETURN_IF_ERROR(Select(i));
      TC_RETURN_IF_ERROR(RunFfn(i, candidates[i], fired[i]));
    }
    TC_RETURN_IF_ERROR(RunHead());
    if (timeline_) {
      timeline_->AddPass("token", run.first_position + 1, begin_s);
    }
    if (there_->kv != nullptr) there_->kv->Commit({&run, 1});
    sequence_->Advance(1);
    ++totals_.num_tokens;
    ++totals_.num_passes;
    return {};
  }

  const SparseTotals& totals() const override { return totals_; }

 private:
  Status Check() const {
    for (const model::LayerSpec& layer : config_.layers) {
      if (layer.ffn.num_experts == 0) continue;
      return Fail(ErrorCode::kUnsupported,
                  "{}: times without numbers: a trace does not say which "
                  "experts a token uses",
                  parts_.model->file().path());
    }
    if (plan_.ffn.predictor != PredictorChoice::kTrainingFree) return {};
    return Fail(ErrorCode::kUnsupported,
                "{}: times without numbers: what training-free predictors "
                "choose is not known without computing it",
                parts_.model->file().path());
  }

  void Read(Stage stage, size_t num_bytes) {
    const compute::ScopedStage told(compute_, stage, num_bytes);
  }

  compute::Rows Row() { return {row_.data(), config_.width, config_.width}; }
  compute::Rows Out() { return {out_.data(), config_.width, config_.width}; }

  Status Attend(size_t layer_idx, const SequenceRows& run) {
    AttentionExecutor* there = there_->attention[layer_idx].get();
    const model::AttentionWeights& weights =
        weights_.layers[layer_idx].attention;
    if (there == nullptr) {
      Read(Stage::kQkv, weights.q.num_bytes() + weights.k.num_bytes() +
                            weights.v.num_bytes());
      Read(Stage::kAttend, static_cast<size_t>(run.first_position + 1) *
                               kv_->layout().layer(layer_idx).position_bytes());
      Read(Stage::kOut, weights.out.num_bytes());
      return {};
    }
    AttentionCall call = {.phase = Phase::kGenerate,
                          .num_rows = 1,
                          .runs = {&run, 1},
                          .normed = Row(),
                          .out = Out()};
    const int rope = config_.layers[layer_idx].attention.rope;
    if (rope != model::AttentionSpec::kNoRope) {
      const size_t width = config_.ropes[static_cast<size_t>(rope)].width / 2;
      call.rope_cos = call.rope_sin = {angles_.data(), width, width};
    }
    return there->Run(call);
  }

  bool HasPredictor(size_t layer_idx) const {
    return plan_.ffn.mode == FfnMode::kFast && layer_idx < config_.num_layers &&
           static_cast<bool>(weights_.layers[layer_idx].predictor.up);
  }

  // The predictors that read this layer's FFN input.
  Status Select(size_t layer_idx) {
    const bool looks_ahead = config_.predictor.lookahead > 0;
    for (const size_t target : {layer_idx + 1, layer_idx}) {
      const size_t source = looks_ahead && target > 0 ? target - 1 : target;
      if (!HasPredictor(target) || source != layer_idx) continue;
      predictor::Selector* there = there_->predictors[target].get();
      const model::PredictorWeights& weights =
          weights_.layers[target].predictor;
      if (there == nullptr) {
        const size_t num_bytes =
            weights.up.num_bytes() + weights.down.num_bytes();
        Read(Stage::kSelect, num_bytes);
        totals_.num_bytes += num_bytes;
        continue;
      }
      const size_t width = config_.layers[target].ffn.width;
      const neuron::ActiveSets sets = {.num_neurons = width,
                                       .words = words_.data()};
      const compute::ScopedStage stage(compute_, Stage::kSelect);
      TC_RETURN_IF_ERROR(
          there->Select(FormOf(Phase::kGenerate), Row(), 1, sets));
    }
    return {};
  }

  Status RunFfn(size_t layer_idx, const neuron::NeuronSet& candidates,
                const neuron::NeuronSet& fired) {
    const model::FfnWeights& ffn = weights_.layers[layer_idx].ffn;
    const bool is_dense =
        plan_.layers[layer_idx].of(Phase::kGenerate) == FfnMode::kDense;
    if (matrices_[layer_idx] != nullptr) {
      return matrices_[layer_idx]->Run({.phase = Phase::kGenerate,
                                        .num_rows = 1,
                                        .normed = Row(),
                                        .out = Out()});
    }
    if (is_dense && !ffn.bundled && there_->neurons[layer_idx] == nullptr) {
      Read(Stage::kUpGate, ffn.up.num_bytes() + ffn.gate.num_bytes());
      Read(Stage::kDown, (ffn.down ? ffn.down : ffn.down_t).num_bytes());
      return {};
    }
    const neuron::NeuronSet* wanted = nullptr;  // all
    const double most =
        kSparseShareMax * static_cast<double>(fired.num_neurons);
    if (HasPredictor(layer_idx) &&
        (config_.predictor.is_mask ||
         static_cast<double>(candidates.Count()) <= most)) {
      wanted = &candidates;
    }
    return RunNeurons(layer_idx, wanted, is_dense ? nullptr : &fired);
  }

  // opened: null for all that are wanted.
  Status RunNeurons(size_t layer_idx, const neuron::NeuronSet* wanted,
                    const neuron::NeuronSet* opened) {
    DeviceFfn* there = there_->neurons[layer_idx].get();
    const size_t num_neurons = config_.layers[layer_idx].ffn.width;
    size_t num_wanted = wanted ? wanted->Count() : num_neurons;
    size_t num_open = opened ? opened->Count() : num_wanted;
    totals_.num_neurons += num_neurons;
    totals_.num_candidates += num_wanted;
    totals_.num_open += num_open;
    if (there != nullptr) {
      there->Start(1);
      there->SetRow(0, row_.data(), wanted);
      const size_t num_there = there->num_wanted(0);
      const size_t num_open_there =
          opened ? opened->CountIn(there->resident()) : num_there;
      parts_.counts->listed = num_there;
      parts_.counts->opened = num_open_there;
      TC_RETURN_IF_ERROR(there->Begin());
      num_wanted -= num_there;
      num_open -= num_open_there;
      totals_.num_device_candidates += num_there;
      totals_.num_device_open += num_open_there;
      totals_.num_device_bytes += there->BytesRead(num_there, num_open_there);
    }
    const model::FfnWeights& ffn = weights_.layers[layer_idx].ffn;
    const HostRows rows = RowsOf(ffn);
    const size_t num_bytes = num_wanted * rows.tested + num_open * rows.rest;
    totals_.num_bytes += num_bytes;
    Read(Stage::kNeurons, num_bytes);
    if (there != nullptr) {
      const compute::ScopedStage stage(compute_, Stage::kDevice);
      TC_RETURN_IF_ERROR(there->Finish(Out()));
    }
    if (!ffn.down_t) Read(Stage::kDown, ffn.down.num_bytes());
    return {};
  }

  Status RunHead() {
    if (there_->head == nullptr) {
      Read(Stage::kHead, weights_.head.num_bytes());
      return {};
    }
    const compute::ScopedStage stage(compute_, Stage::kHead);
    return there_->head->Run(
        {.phase = Phase::kGenerate,
         .num_rows = 1,
         .normed = Row(),
         .logits = {out_.data(), config_.vocab_size, config_.vocab_size}});
  }

  TimedParts parts_;
  const model::Config& config_;
  const model::Weights& weights_;
  std::optional<compute::StageTimeline> timeline_;
  compute::Compute compute_;
  EnginePlan plan_;
  std::unique_ptr<KvPool> kv_;
  std::optional<KvSequence> sequence_;
  std::unique_ptr<DeviceModel> there_;
  FfnScratch no_scratch_;
  std::vector<std::unique_ptr<FfnExecutor>> matrices_;  // [L], or null
  std::vector<float> row_, out_, angles_;               // nobody's numbers
  std::vector<uint64_t> words_;
  SparseTotals totals_;
};

}  // namespace

Result<std::unique_ptr<TimedPass>> TimedPass::Make(const TimedParts& parts) {
  TC_CHECK(parts.counts != nullptr && parts.plan.engine.work != nullptr);
  auto timed = std::make_unique<Timed>(parts);
  TC_RETURN_IF_ERROR(timed->Start());
  return timed;
}

}  // namespace thermocline::engine
