// Inputs of layers and what fired there, of evenly chosen tokens of a corpus,
// in a stated amount of memory.
#ifndef THERMOCLINE_TRAINING_SAMPLE_STORE_H_
#define THERMOCLINE_TRAINING_SAMPLE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/ffn/ffn_observer.h"
#include "training/corpus.h"
#include "training/low_rank.h"

namespace thermocline::training {

// Layers [first, end) of the model.
struct LayerRange {
  size_t first = 0;
  size_t end = 0;

  size_t size() const { return end - first; }
  bool contains(size_t layer_idx) const {
    return layer_idx >= first && layer_idx < end;
  }
  bool operator==(const LayerRange&) const = default;
};

// Bytes of one sample of one layer.
uint64_t SampleBytes(size_t width, const Neurons& neurons);

// Ranges that cover [0, num_layers), each with at most `max_layers` layers when
// `num_before` layers before it are counted in (a predictor that looks ahead
// reads their inputs). Requires max_layers > num_before.
std::vector<LayerRange> GroupLayers(size_t num_layers, size_t max_layers,
                                    size_t num_before);

// Owns the samples. The tokens are the same in every layer: sample n of one is
// sample n of all.
class SampleStore {
 public:
  // For `max_samples` of the corpus's tokens at most, an eighth of them held
  // out; the memory is touched as they come.
  SampleStore(const Corpus& corpus, size_t max_samples, LayerRange layers,
              size_t width, const Neurons& neurons);

  // To be called for every observation of a run over the corpus, in order.
  void Add(size_t chunk_idx, const engine::FfnObservation& seen);

  // What `input_layer` read and `fired_layer` did, both among the layers.
  Samples train(size_t input_layer, size_t fired_layer) const;
  Samples held_out(size_t input_layer, size_t fired_layer) const;
  const LayerRange& layers() const { return layers_; }

 private:
  // Of the tokens in training's chunks, or of those held out.
  struct Split {
    uint64_t num_tokens = 0;
    uint64_t num_samples = 0;
    // [layers] each.
    std::vector<std::vector<uint16_t>> inputs;
    std::vector<std::vector<uint64_t>> fired;
    std::vector<std::vector<uint64_t>> experts;  // empty without experts

    // The sample that token `token_idx` is, or none.
    bool Picks(uint64_t token_idx) const;
  };
  Split MakeSplit(uint64_t num_tokens, uint64_t max_samples) const;
  bool has_experts() const { return neurons_.num_experts > 1; }
  Samples View(const Split& split, size_t input_layer,
               size_t fired_layer) const;

  size_t chunk_tokens_;
  LayerRange layers_;
  size_t width_;
  Neurons neurons_;
  Split train_, held_out_;
};

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_SAMPLE_STORE_H_
