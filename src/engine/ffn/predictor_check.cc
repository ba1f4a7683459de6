#include "engine/ffn/predictor_check.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/remedy.h"
#include "predictor/expert_parts.h"
#include "predictor/low_rank.h"
#include "predictor/training_free.h"

namespace thermocline::engine {
namespace {

using neuron::NeuronSet;

// Of two sets, as counts.
struct Agreement {
  size_t num_stored = 0;
  size_t num_found = 0;
  size_t num_common = 0;

  bool IsGood() const {
    return static_cast<double>(num_common) >=
           kSelfTestShare * static_cast<double>(num_most());
  }
  double percent() const {
    return 100.0 * static_cast<double>(num_common) /
           static_cast<double>(std::max<size_t>(num_most(), 1));
  }

 private:
  size_t num_most() const { return std::max(num_stored, num_found); }
};

// Whether row `sample` of `stored` has the neuron: bit i % 8 of byte i / 8.
bool Has(const TensorView& stored, size_t sample, size_t neuron) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(stored.row(sample));
  return (bytes[neuron / 8] >> neuron % 8 & 1) != 0;
}

// Neurons [first, ..) of row `sample` of `stored` against a set of them.
void Compare(const TensorView& stored, size_t sample, size_t first,
             const NeuronSet& found, Agreement& sum) {
  for (size_t i = 0; i < found.num_neurons; ++i) {
    const bool was = Has(stored, sample, first + i);
    const bool is = found.Has(i);
    sum.num_stored += was ? 1 : 0;
    sum.num_found += is ? 1 : 0;
    sum.num_common += was && is ? 1 : 0;
  }
}

class SelfTests {
 public:
  SelfTests(const FfnParts& parts, const SelfTestRows& rows)
      : parts_(parts), rows_(rows), layers_(parts.model->weights().layers) {}

  // Of a mixture, the first of its experts that any sample used.
  Status Check(size_t layer_idx) {
    TC_RETURN_IF_ERROR(TakeLayer(layer_idx));
    const Status status = CheckLayer(layer_idx);
    if (parts_.experts != nullptr) parts_.experts->EndPass();
    return status;
  }

 private:
  Status CheckLayer(size_t layer_idx) const {
    const model::SelfTest& test = layers_[layer_idx].self_test;
    TC_ASSIGN_OR_RETURN(const Agreement fired, CheckFired(layer_idx));
    if (!fired.IsGood()) {
      return Refuse(layer_idx, "neurons that fired", fired);
    }
    const bool is_free = parts_.predictor == PredictorChoice::kTrainingFree;
    const TensorView& stored = is_free ? test.free : test.candidates;
    // Files of before have none of the training-free predictor.
    if (!stored) return {};
    if (!is_free && parts_.model->config().predictor.threshold != 0.0f) {
      return {};
    }
    TC_ASSIGN_OR_RETURN(const Agreement candidates,
                        CheckCandidates(layer_idx, stored));
    return candidates.IsGood() ? Status()
                               : Refuse(layer_idx, "candidates", candidates);
  }

  Status Refuse(size_t layer_idx, const char* what,
                const Agreement& agreement) const {
    return Fail(ErrorCode::kCorrupt, Advice{Remedy::kPrepareAnew},
                "{}: the predictors were made for another model: the {} when "
                "layer {} was trained and those of today agree by {:.0f} %",
                parts_.model->file().path(), what, layer_idx,
                agreement.percent());
  }

  // Leaves in ffn_ and first_ what is tested of the layer, its scratch and
  // number of neurons beside it.
  Status TakeLayer(size_t layer_idx) {
    const model::LayerWeights& layer = layers_[layer_idx];
    scratch_ = &parts_.scratch[layer_idx];
    num_neurons_ = scratch_->sparse.num_neurons;
    ffn_ = layer.ffn;
    ffn_.experts.clear();
    first_ = 0;
    if (layer.ffn.experts.empty()) return {};
    const size_t num_samples = layer.self_test.inputs.shape.num_rows();
    size_t expert_idx = 0;
    const auto is_used = [&] {
      for (size_t s = 0; s < num_samples; ++s) {
        if (WasUsed(layer_idx, s)) return true;
      }
      return false;
    };
    while (!is_used() && expert_idx + 1 < layer.ffn.experts.size()) {
      first_ = ++expert_idx * num_neurons_;
    }
    static_cast<model::FfnMatrices&>(ffn_) = layer.ffn.experts[expert_idx];
    if (parts_.experts == nullptr) return {};
    return parts_.experts->Fetch(layer_idx, static_cast<uint32_t>(expert_idx),
                                 ffn_);
  }

  // Whether the sample's token went through what is tested: then something
  // fired there.
  bool WasUsed(size_t layer_idx, size_t sample) const {
    const model::LayerWeights& layer = layers_[layer_idx];
    if (layer.ffn.experts.empty()) return true;
    for (size_t i = 0; i < num_neurons_; ++i) {
      if (Has(layer.self_test.fired, sample, first_ + i)) return true;
    }
    return false;
  }

  // Copies samples [first, first + count) of a layer's inputs to
  // rows_.normed.
  void Load(size_t layer_idx, size_t first, size_t count) const {
    const TensorView& inputs = layers_[layer_idx].self_test.inputs;
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(rows_.normed.row(i), inputs.row(first + i),
                  inputs.row_bytes());
    }
  }

  // Calls f(first, count) for the samples, as many at once as the scratch has
  // room for, until one fails.
  template <typename Function>
  Status ForGroups(size_t layer_idx, Function f) const {
    const size_t num_samples =
        layers_[layer_idx].self_test.inputs.shape.num_rows();
    const size_t group = scratch_->sparse.group;
    for (size_t first = 0; first < num_samples; first += group) {
      TC_RETURN_IF_ERROR(f(first, std::min(group, num_samples - first)));
    }
    return {};
  }

  Result<Agreement> CheckFired(size_t layer_idx) const {
    const FfnScratch& scratch = *scratch_;
    NeuronFfn ffn(&parts_.model->config().layers[layer_idx].ffn, &ffn_,
                  parts_.records->of(layer_idx, first_ / num_neurons_),
                  Listed::kAll, 0.0f, parts_.compute, &scratch, parts_.board);
    std::vector<uint64_t> words(neuron::WordsOf(num_neurons_));
    const NeuronSet set = {words.data(), num_neurons_};
    Agreement sum;
    const auto check = [&](size_t first, size_t count) -> Status {
      Load(layer_idx, first, count);
      const std::vector<NeuronList> lists(
          count, {scratch.sparse.all_ids, num_neurons_});
      TC_RETURN_IF_ERROR(ffn.Run(rows_.normed, lists, scratch.up, rows_.out));
      for (size_t i = 0; i < count; ++i) {
        if (!WasUsed(layer_idx, first + i)) continue;
        set.Clear();
        ffn.AddFired(i, set);
        Compare(layers_[layer_idx].self_test.fired, first + i, first_, set,
                sum);
      }
      return {};
    };
    TC_RETURN_IF_ERROR(ForGroups(layer_idx, check));
    return sum;
  }

  // Of the predictor in use, with what was stored of it.
  std::unique_ptr<predictor::Selector> MakeSelector(size_t layer_idx) const {
    const model::LayerWeights& layer = layers_[layer_idx];
    if (parts_.predictor == PredictorChoice::kTrainingFree) {
      return predictor::MakeTrainingFreeSelector(
          predictor::PartOf(layer.training_free, first_, num_neurons_),
          parts_.compute, &scratch_->selector);
    }
    return predictor::MakeLowRankSelector(
        predictor::PartOf(layer.predictor, first_, num_neurons_),
        parts_.model->config().predictor.threshold, parts_.compute,
        &scratch_->selector);
  }

  // With the inputs of the layer that the predictor reads.
  Result<Agreement> CheckCandidates(size_t layer_idx,
                                    const TensorView& stored) const {
    const size_t lookahead = parts_.predictor == PredictorChoice::kTrainingFree
                                 ? 0
                                 : parts_.model->config().predictor.lookahead;
    const size_t source = layer_idx - std::min(layer_idx, lookahead);
    const auto selector = MakeSelector(layer_idx);
    const size_t words_per_row = neuron::ActiveSets::WordsPerRow(num_neurons_);
    std::vector<uint64_t> words(scratch_->sparse.group * words_per_row);
    const neuron::ActiveSets sets = {num_neurons_, words.data()};
    Agreement sum;
    const auto check = [&](size_t first, size_t count) -> Status {
      Load(source, first, count);
      const Status status = selector->Select(compute::ProductForm::kRow,
                                             rows_.normed, count, sets);
      if (!status) {
        return Annotate(
            fmt::format("{}: layer {}", parts_.model->file().path(), layer_idx),
            status.error());
      }
      for (size_t i = 0; i < count; ++i) {
        if (!WasUsed(layer_idx, first + i)) continue;
        Compare(stored, first + i, first_, sets.named(i), sum);
      }
      return {};
    };
    TC_RETURN_IF_ERROR(ForGroups(layer_idx, check));
    return sum;
  }

  const FfnParts& parts_;
  const SelfTestRows& rows_;
  const std::vector<model::LayerWeights>& layers_;
  const FfnScratch* scratch_ = nullptr;
  size_t num_neurons_ = 0;  // F
  model::FfnWeights ffn_;
  size_t first_ = 0;  // of its neurons, among the layer's
};

}  // namespace

Status CheckSelfTests(const FfnParts& parts, FfnMode mode,
                      const SelfTestRows& rows) {
  if (mode != FfnMode::kFast) return {};
  const bool is_trained = parts.predictor == PredictorChoice::kTrained;
  const auto& layers = parts.model->weights().layers;
  std::vector<size_t> tested;
  for (size_t i = 0; i < layers.size(); ++i) {
    // Signs that the session took itself are of its model.
    const TensorView& predictor =
        is_trained ? layers[i].predictor.up : layers[i].training_free.signs;
    if (layers[i].self_test.inputs && predictor) tested.push_back(i);
  }
  const size_t count = std::min(tested.size(), kSelfTestLayers);
  SelfTests tests(parts, rows);
  for (size_t i = 0; i < count; ++i) {
    const size_t place = count == 1 ? 0 : i * (tested.size() - 1) / (count - 1);
    TC_RETURN_IF_ERROR(tests.Check(tested[place]));
  }
  return {};
}

}  // namespace thermocline::engine
