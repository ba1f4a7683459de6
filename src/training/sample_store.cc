#include "training/sample_store.h"

#include <algorithm>

#include "base/check.h"
#include "predictor/neuron_set.h"
#include "tensor/float16.h"

namespace thermocline::training {
namespace {

// How many chunks of that kind lie before `chunk_idx`.
size_t RankOfChunk(size_t chunk_idx) {
  const size_t num_held_out = chunk_idx / 8;
  return Corpus::IsHeldOut(chunk_idx) ? num_held_out : chunk_idx - num_held_out;
}

}  // namespace

uint64_t SampleBytes(size_t width, size_t num_neurons) {
  return width * sizeof(uint16_t) +
         predictor::WordsOf(num_neurons) * sizeof(uint64_t);
}

std::vector<LayerRange> GroupLayers(size_t num_layers, size_t max_layers,
                                    size_t num_before) {
  TC_CHECK(max_layers > num_before);
  std::vector<LayerRange> groups;
  for (size_t first = 0; first < num_layers;) {
    const size_t before = std::min(first, num_before);
    const size_t end = std::min(num_layers, first - before + max_layers);
    groups.push_back({first, end});
    first = end;
  }
  return groups;
}

bool SampleStore::Split::Picks(uint64_t token_idx) const {
  // Of num_tokens places num_samples at even distances.
  return (token_idx + 1) * num_samples / num_tokens >
         token_idx * num_samples / num_tokens;
}

SampleStore::Split SampleStore::MakeSplit(uint64_t num_tokens,
                                          uint64_t max_samples,
                                          size_t num_layers) {
  Split split = {.num_tokens = num_tokens,
                 .num_samples = std::min(num_tokens, max_samples)};
  split.inputs.resize(num_layers);
  split.fired.resize(num_layers);
  return split;
}

SampleStore::SampleStore(const Corpus& corpus, size_t max_samples,
                         LayerRange layers, size_t width, size_t num_neurons)
    : chunk_tokens_(corpus.chunk_tokens()),
      layers_(layers),
      width_(width),
      num_neurons_(num_neurons) {
  TC_CHECK(max_samples >= 8);
  const uint64_t num_held_out = corpus.num_held_out_tokens();
  held_out_ = MakeSplit(num_held_out, max_samples / 8, layers.size());
  train_ = MakeSplit(corpus.num_tokens() - num_held_out,
                     max_samples - max_samples / 8, layers.size());
  for (Split* split : {&train_, &held_out_}) {
    for (size_t i = 0; i < layers.size(); ++i) {
      split->inputs[i].reserve(split->num_samples * width);
      split->fired[i].reserve(split->num_samples *
                              predictor::WordsOf(num_neurons));
    }
  }
}

void SampleStore::Add(size_t chunk_idx, const engine::FfnObservation& seen) {
  const auto layer_idx = static_cast<size_t>(seen.layer_idx);
  if (!layers_.contains(layer_idx)) return;
  Split& split = Corpus::IsHeldOut(chunk_idx) ? held_out_ : train_;
  const uint64_t token_idx = RankOfChunk(chunk_idx) * chunk_tokens_ +
                             static_cast<uint64_t>(seen.position);
  if (!split.Picks(token_idx)) return;
  std::vector<uint16_t>& inputs = split.inputs[layer_idx - layers_.first];
  for (const float value : seen.input) inputs.push_back(F32ToF16(value));
  std::vector<uint64_t>& fired = split.fired[layer_idx - layers_.first];
  fired.resize(fired.size() + predictor::WordsOf(num_neurons_));
  const predictor::NeuronSet set = {
      fired.data() + fired.size() - predictor::WordsOf(num_neurons_),
      num_neurons_};
  for (const uint32_t i : seen.fired) set.Add(i);
}

Samples SampleStore::View(const Split& split, size_t input_layer,
                          size_t fired_layer) const {
  TC_CHECK(layers_.contains(input_layer) && layers_.contains(fired_layer));
  const auto& inputs = split.inputs[input_layer - layers_.first];
  const auto& fired = split.fired[fired_layer - layers_.first];
  TC_CHECK(inputs.size() == split.num_samples * width_ &&
           fired.size() ==
               split.num_samples * predictor::WordsOf(num_neurons_));
  return {.num_samples = split.num_samples,
          .width = width_,
          .num_neurons = num_neurons_,
          .inputs = inputs.data(),
          .fired = fired.data()};
}

Samples SampleStore::train(size_t input_layer, size_t fired_layer) const {
  return View(train_, input_layer, fired_layer);
}

Samples SampleStore::held_out(size_t input_layer, size_t fired_layer) const {
  return View(held_out_, input_layer, fired_layer);
}

}  // namespace thermocline::training
