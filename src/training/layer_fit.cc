#include "training/layer_fit.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "training/fit.h"
#include "training/neuron_order.h"
#include "training/training_free_fit.h"

namespace thermocline::training {
namespace {

// Less than a full training orders lookaheads.
constexpr size_t kAheadShare = 4;
constexpr size_t kMinAheadSteps = 20;

// `num_bytes` of each FFN that a token goes through.
PredictorFindings FindingsOf(const Accuracy& accuracy, size_t rank, DType dtype,
                             uint64_t num_bytes, const Neurons& neurons) {
  return {.rank = rank,
          .dtype = dtype,
          .num_bytes = neurons.num_used * num_bytes,
          .recall = accuracy.recall(),
          .precision = accuracy.precision(),
          .candidates_per_fired = accuracy.candidates_per_fired()};
}

class LayerFitter {
 public:
  LayerFitter(const Gemm& gemm, const model::Model& model,
              const SampleStore& store, const neuron::LayerProfile& profile,
              size_t layer_idx, const FindOptions& options)
      : gemm_(gemm),
        config_(model.config()),
        ffn_(model.weights().layers[layer_idx].ffn),
        store_(store),
        profile_(profile),
        layer_idx_(layer_idx),
        options_(options) {}

  Result<LayerFile> Fit();

 private:
  FitOptions MakeFitOptions() const;
  // For predictors that read the input of `input_layer`.
  FitData DataOf(size_t input_layer) const;
  Gate OwnGate(float input_scale) const;
  Status AddOrder();
  Status AddTrained(const FitData& data);
  void AddTrainingFree(const FitData& own_data);
  Status AddAhead();

  const Gemm& gemm_;
  const model::Config& config_;
  const model::FfnWeights& ffn_;
  const SampleStore& store_;
  const neuron::LayerProfile& profile_;
  size_t layer_idx_;
  const FindOptions& options_;
  LayerFile out_;
};

FitOptions LayerFitter::MakeFitOptions() const {
  FitOptions fit = {.goal = options_.goal,
                    .num_steps = options_.num_steps,
                    .seed = options_.seed,
                    .cancel = options_.session.cancel};
  fit.progress = [&options = options_,
                  what = fmt::format("layer {} of {}", layer_idx_ + 1,
                                     config_.num_layers)](size_t num_done,
                                                          size_t num_total) {
    ReportProgress(options.progress, what, num_done, num_total);
  };
  return fit;
}

FitData LayerFitter::DataOf(size_t input_layer) const {
  FitData data = {.train = store_.train(input_layer, layer_idx_),
                  .held_out = store_.held_out(input_layer, layer_idx_),
                  .ffn_bytes = FfnBytes(ffn_),
                  .skew = profile_.skew()};
  const float scale = UnitScale(data.train);
  data.train.input_scale = data.held_out.input_scale = scale;
  data.gate = OwnGate(scale);
  if (input_layer != layer_idx_) {
    Samples own = store_.train(layer_idx_, layer_idx_);
    own.input_scale = scale;
    data.gate.read = [this, own_gate = data.gate.read,
                      guess = std::make_shared<const InputGuess>(
                          FitGuess(gemm_, data.train, own))](size_t expert) {
      return LookAhead(gemm_, own_gate(expert), *guess);
    };
  }
  return data;
}

// What opens the neurons.
Gate LayerFitter::OwnGate(float input_scale) const {
  return {.num_experts = std::max<size_t>(1, ffn_.experts.size()),
          .read = [this, input_scale](size_t expert_idx) {
            const model::FfnMatrices& matrices =
                ffn_.experts.empty() ? ffn_ : ffn_.experts[expert_idx];
            const bool gated = CommonFfn(config_).gated;
            GateRows rows =
                ReadGate(gemm_, gated ? matrices.gate : matrices.up,
                         gated ? ffn_.gate_bias : ffn_.up_bias, input_scale);
            for (float& bias : rows.biases)
              bias -= CommonFfn(config_).threshold;
            return rows;
          }};
}

Status LayerFitter::AddOrder() {
  const Samples train = store_.train(layer_idx_, layer_idx_);
  const Samples held_out =
      store_.held_out(layer_idx_, layer_idx_).Thinned(kOrderSamples);
  const size_t group_size = OrderGroupSize(train.ffn_width());
  TC_ASSIGN_OR_RETURN(out_.order, OrderTogether(train, profile_.counts,
                                                group_size, options_.grouping));
  std::vector<uint32_t> as_they_lie(out_.order.size());
  std::iota(as_they_lie.begin(), as_they_lie.end(), 0u);
  out_.findings.fired_per_group =
      FiredPerGroup(held_out, out_.order, group_size);
  out_.findings.fired_per_group_as_they_lie =
      FiredPerGroup(held_out, as_they_lie, group_size);
  return {};
}

Status LayerFitter::AddTrained(const FitData& data) {
  TC_ASSIGN_OR_RETURN(FittedPredictor fitted,
                      FitPredictor(gemm_, data, MakeFitOptions()));
  out_.trained = std::move(fitted.predictor);
  out_.findings.reason = fitted.reason;
  if (out_.trained) {
    out_.findings.trained =
        FindingsOf(fitted.accuracy, fitted.rank, fitted.dtype, fitted.num_bytes,
                   data.train);
  }
  return {};
}

void LayerFitter::AddTrainingFree(const FitData& own_data) {
  FittedTrainingFree fitted =
      FitTrainingFree(gemm_, own_data,
                      {.goal = options_.goal,
                       .seed = options_.seed,
                       .kernels = &kernels::KernelsFor(options_.session.isa)});
  out_.free = std::move(fitted.predictor);
  out_.findings.free_sign_candidates_per_fired =
      fitted.signs.candidates_per_fired();
  if (!out_.free) return;
  out_.findings.free = FindingsOf(
      fitted.accuracy, fitted.rank, DType::kQ8_0,
      fitted.num_sign_bytes + fitted.num_margin_bytes, own_data.train);
}

Status LayerFitter::AddAhead() {
  const PredictorFindings& trained = out_.findings.trained;
  if (trained.rank == 0) return {};
  FitOptions shorter = MakeFitOptions();
  shorter.num_steps = std::max(kMinAheadSteps, shorter.num_steps / kAheadShare);
  for (size_t ahead = 0; ahead <= std::min(kMaxAhead, layer_idx_); ++ahead) {
    TC_ASSIGN_OR_RETURN(
        const Accuracy accuracy,
        MeasureAhead(gemm_, DataOf(layer_idx_ - ahead), trained.rank,
                     trained.candidates_per_fired, shorter));
    out_.findings.recall_ahead.push_back(accuracy.recall());
  }
  return {};
}

Result<LayerFile> LayerFitter::Fit() {
  const Neurons neurons = NeuronsOf(config_);
  out_.findings.density = DensityOfUsed(profile_.density(), neurons);
  out_.findings.skew = profile_.skew();
  out_.findings.locality = profile_.locality();
  out_.findings.ffn_bytes = neurons.num_used * FfnBytes(ffn_);
  TC_RETURN_IF_ERROR(AddOrder());
  if (options_.predictors) {
    const auto lookahead = static_cast<size_t>(options_.lookahead);
    TC_RETURN_IF_ERROR(
        AddTrained(DataOf(layer_idx_ - std::min(layer_idx_, lookahead))));
  }
  if (options_.training_free) AddTrainingFree(DataOf(layer_idx_));
  if (options_.reports_ahead) TC_RETURN_IF_ERROR(AddAhead());
  return std::move(out_);
}

}  // namespace

uint64_t FfnBytes(const model::FfnWeights& ffn) {
  const model::FfnMatrices& one =
      ffn.experts.empty() ? ffn : ffn.experts.front();
  const TensorView& down = one.down ? one.down : one.down_t;
  return (one.gate ? one.gate.num_bytes() : 0) + one.up.num_bytes() +
         down.num_bytes();
}

Result<LayerFile> FitLayer(const Gemm& gemm, const model::Model& model,
                           const SampleStore& store,
                           const neuron::LayerProfile& profile,
                           size_t layer_idx, const FindOptions& options) {
  return LayerFitter(gemm, model, store, profile, layer_idx, options).Fit();
}

}  // namespace thermocline::training
