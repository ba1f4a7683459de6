#include "engine/ffn/predictor_probe.h"

#include <algorithm>
#include <utility>

#include "base/remedy.h"
#include "compute/carver.h"
#include "compute/product_scratch.h"
#include "predictor/expert_parts.h"
#include "predictor/low_rank.h"
#include "predictor/training_free.h"

namespace thermocline::engine {
namespace {

// R of the widest predictor.
size_t WidestRank(const model::Weights& weights, bool is_free) {
  size_t rank = 1;
  for (const model::LayerWeights& layer : weights.layers) {
    const TensorView& up =
        is_free ? layer.training_free.up : layer.predictor.up;
    if (up) rank = std::max<size_t>(rank, up.shape.num_rows());
  }
  return rank;
}

bool IsInMemory(const model::LayerWeights& layer, bool is_free) {
  const auto is_there = [](const TensorView& view) {
    return !view || view.in_memory();
  };
  if (is_free) {
    const model::TrainingFreeWeights& free = layer.training_free;
    return is_there(free.signs) && is_there(free.up) && is_there(free.down) &&
           is_there(free.bias);
  }
  const model::PredictorWeights& trained = layer.predictor;
  return is_there(trained.up) && is_there(trained.up_bias) &&
         is_there(trained.down) && is_there(trained.down_bias);
}

}  // namespace

Result<std::unique_ptr<PredictorProbe>> PredictorProbe::Create(
    std::shared_ptr<const model::Model> model, kernels::Isa isa) {
  const model::Config& config = model->config();
  const std::string& path = model->file().path();
  const bool is_free = !config.predictor.is_there();
  if (is_free && !config.has_training_free) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kTrainPredictor},
                "{}: brings no predictors that could be asked whom they name, "
                "as PowerInfer's, KAIROX's and prepared files do",
                path);
  }
  for (size_t l = 0; l < config.num_layers; ++l) {
    if (IsInMemory(model->weights().layers[l], is_free)) continue;
    return Fail(ErrorCode::kUnsupported,
                "{}: layer {}: its predictor is not in memory, and cannot be "
                "asked",
                path, l);
  }
  TC_ASSIGN_OR_RETURN(auto pool,
                      os::ThreadPool::Create({.num_threads = 1, .pin = false}));
  std::unique_ptr<PredictorProbe> probe(
      new PredictorProbe(std::move(model), is_free, std::move(pool)));
  compute::Carver plan(nullptr);
  probe->Carve(isa, plan);
  TC_ASSIGN_OR_RETURN(probe->buffer_, os::AlignedBuffer::Allocate(plan.used()));
  compute::Carver carver(probe->buffer_.data());
  probe->Carve(isa, carver);
  return probe;
}

PredictorProbe::PredictorProbe(std::shared_ptr<const model::Model> model,
                               bool is_free,
                               std::unique_ptr<os::ThreadPool> pool)
    : model_(std::move(model)), is_free_(is_free), pool_(std::move(pool)) {
  for (const model::LayerSpec& layer : model_->config().layers) {
    selectors_.emplace_back(std::max<size_t>(layer.ffn.num_experts, 1));
  }
}

void PredictorProbe::Carve(kernels::Isa isa, compute::Carver& carver) {
  const model::Config& config = model_->config();
  const size_t rank = WidestRank(model_->weights(), is_free_);
  const size_t num_neurons = MaxFfnWidth(config);
  input_ = carver.TakeRows(1, config.width);
  compute_ = {.pool = pool_.get(),
              .kernels = &kernels::KernelsFor(isa),
              .scratch = compute::CarveProducts(
                  {.num_rows = 1,
                   .widest = std::max<uint64_t>(config.width, rank),
                   .num_threads = 1,
                   .isa = isa},
                  carver)};
  scratch_ = predictor::CarveSelectors(1, config.width, 1, carver);
  scratch_.hidden = carver.TakeRows(1, rank);
  scratch_.scores = carver.TakeRows(1, num_neurons);
  sets_ = {num_neurons, carver.Take<uint64_t>(
                            1, neuron::ActiveSets::WordsPerRow(num_neurons))};
}

bool PredictorProbe::HasPredictor(size_t layer_idx) const {
  const model::LayerWeights& layer = model_->weights().layers[layer_idx];
  return static_cast<bool>(is_free_ ? layer.training_free.signs
                                    : layer.predictor.up);
}

size_t PredictorProbe::SourceOf(size_t layer_idx) const {
  const size_t lookahead = is_free_ ? 0 : model_->config().predictor.lookahead;
  return layer_idx - std::min(layer_idx, lookahead);
}

predictor::Selector& PredictorProbe::SelectorOf(size_t layer_idx,
                                                size_t expert_idx) {
  auto& selector = selectors_[layer_idx][expert_idx];
  if (selector != nullptr) return *selector;
  const model::Config& config = model_->config();
  const model::LayerWeights& layer = model_->weights().layers[layer_idx];
  const size_t count = config.layers[layer_idx].ffn.width;
  const size_t first = expert_idx * count;
  selector = is_free_
                 ? predictor::MakeTrainingFreeSelector(
                       predictor::PartOf(layer.training_free, first, count),
                       &compute_, &scratch_)
                 : predictor::MakeLowRankSelector(
                       predictor::PartOf(layer.predictor, first, count),
                       config.predictor.threshold, &compute_, &scratch_);
  return *selector;
}

// Adds those of one expert, or of the layer.
Status PredictorProbe::AddPart(size_t layer_idx, size_t expert_idx) {
  const size_t count = model_->config().layers[layer_idx].ffn.width;
  const auto first = static_cast<uint32_t>(expert_idx * count);
  const neuron::ActiveSets sets = {count, sets_.words};
  if (!HasPredictor(layer_idx)) {
    sets.named(0).Fill();
  } else if (const Status status =
                 SelectorOf(layer_idx, expert_idx)
                     .Select(compute::ProductForm::kRow, input_, 1, sets);
             !status) {
    return Annotate(
        fmt::format("{}: layer {}", model_->file().path(), layer_idx),
        status.error());
  }
  sets.named(0).ForEachIn(0, count, [&](size_t i) {
    named_.push_back(first + static_cast<uint32_t>(i));
  });
  return {};
}

Result<std::span<const uint32_t>> PredictorProbe::Ask(
    const FfnObservation& seen, size_t layer_idx) {
  const model::Config& config = model_->config();
  const bool reads_stream =
      !is_free_ && config.predictor.input == model::PredictorInput::kStream;
  std::ranges::copy(reads_stream ? seen.stream : seen.input, input_.row(0));
  named_.clear();
  const size_t num_experts = config.layers[layer_idx].ffn.num_experts;
  if (num_experts == 0) TC_RETURN_IF_ERROR(AddPart(layer_idx, 0));
  for (uint32_t e = 0; e < num_experts; ++e) {
    if (std::ranges::find(seen.experts, e) == seen.experts.end()) continue;
    TC_RETURN_IF_ERROR(AddPart(layer_idx, e));
  }
  return std::span<const uint32_t>(named_);
}

}  // namespace thermocline::engine
