#include "training/sample_store.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "neuron/neuron_set.h"
#include "tensor/float16.h"

namespace thermocline::training {
namespace {

// Adds a set of `num_members` bits to those that are there.
void AppendSet(std::span<const uint32_t> members, size_t num_members,
               std::vector<uint64_t>& sets) {
  const size_t num_words = neuron::WordsOf(num_members);
  sets.resize(sets.size() + num_words);
  const neuron::NeuronSet set = {sets.data() + sets.size() - num_words,
                                 num_members};
  for (const uint32_t i : members) set.Add(i);
}

}  // namespace

uint64_t SampleBytes(size_t width, const Neurons& neurons) {
  const size_t num_expert_words =
      neurons.num_experts > 1 ? neuron::WordsOf(neurons.num_experts) : 0;
  return width * sizeof(uint16_t) +
         (neuron::WordsOf(neurons.num_neurons) + num_expert_words) *
             sizeof(uint64_t);
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
                                          uint64_t max_samples) const {
  Split split = {.num_tokens = num_tokens,
                 .num_samples = std::min(num_tokens, max_samples)};
  const auto make = [&](auto& of_layers, size_t row_elems) {
    of_layers.resize(layers_.size());
    for (auto& of_layer : of_layers) {
      of_layer.reserve(split.num_samples * row_elems);
    }
  };
  make(split.inputs, width_);
  make(split.fired, neuron::WordsOf(neurons_.num_neurons));
  if (has_experts()) {
    make(split.experts, neuron::WordsOf(neurons_.num_experts));
  }
  return split;
}

SampleStore::SampleStore(const Corpus& corpus, size_t max_samples,
                         LayerRange layers, size_t width,
                         const Neurons& neurons)
    : chunk_tokens_(corpus.chunk_tokens()),
      layers_(layers),
      width_(width),
      neurons_(neurons) {
  TC_CHECK(max_samples >= 8);
  const uint64_t num_held_out = corpus.num_held_out_tokens();
  held_out_ = MakeSplit(num_held_out, max_samples / 8);
  train_ = MakeSplit(corpus.num_tokens() - num_held_out,
                     max_samples - max_samples / 8);
}

void SampleStore::Add(size_t chunk_idx, const engine::FfnObservation& seen) {
  const size_t layer_idx = seen.layer_idx;
  if (!layers_.contains(layer_idx)) return;
  Split& split = Corpus::IsHeldOut(chunk_idx) ? held_out_ : train_;
  const uint64_t token_idx = Corpus::RankOf(chunk_idx) * chunk_tokens_ +
                             static_cast<uint64_t>(seen.position);
  if (!split.Picks(token_idx)) return;
  std::vector<uint16_t>& inputs = split.inputs[layer_idx - layers_.first];
  // What does not fit stays large: an infinity would spoil all that is fitted.
  for (const float value : seen.input) {
    inputs.push_back(F32ToF16(std::clamp(value, -kMaxF16, kMaxF16)));
  }
  AppendSet(seen.fired, neurons_.num_neurons,
            split.fired[layer_idx - layers_.first]);
  if (has_experts()) {
    AppendSet(seen.experts, neurons_.num_experts,
              split.experts[layer_idx - layers_.first]);
  }
}

Samples SampleStore::View(const Split& split, size_t input_layer,
                          size_t fired_layer) const {
  TC_CHECK(layers_.contains(input_layer) && layers_.contains(fired_layer));
  const auto& inputs = split.inputs[input_layer - layers_.first];
  const auto& fired = split.fired[fired_layer - layers_.first];
  TC_CHECK(inputs.size() == split.num_samples * width_ &&
           fired.size() ==
               split.num_samples * neuron::WordsOf(neurons_.num_neurons));
  Samples samples = {neurons_};
  samples.num_samples = split.num_samples;
  samples.width = width_;
  samples.inputs = inputs.data();
  samples.fired = fired.data();
  if (has_experts()) {
    samples.experts = split.experts[fired_layer - layers_.first].data();
  }
  return samples;
}

Samples SampleStore::train(size_t input_layer, size_t fired_layer) const {
  return View(train_, input_layer, fired_layer);
}

Samples SampleStore::held_out(size_t input_layer, size_t fired_layer) const {
  return View(held_out_, input_layer, fired_layer);
}

}  // namespace thermocline::training
