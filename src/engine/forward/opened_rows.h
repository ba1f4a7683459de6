// Whom the last rows of a prompt used in each layer, from what a device that
// computed it gives of gates.
#ifndef THERMOCLINE_ENGINE_FORWARD_OPENED_ROWS_H_
#define THERMOCLINE_ENGINE_FORWARD_OPENED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/ffn/ffn_mode.h"
#include "engine/stream/record_stream.h"
#include "model/config.h"
#include "neuron/neuron_set.h"

namespace thermocline::engine {

// Kept until the prompt is through: while a layer is computed, the stores are
// busy with those behind it.
class OpenedRows {
 public:
  // Of a model without experts. generated: what generated rows leave alone is
  // not used (RestBelow); not kDense.
  OpenedRows(const model::Config& config, FfnMode generated);
  // What it takes.
  static uint64_t NumBytes(const model::Config& config);

  // Positions that follow are those of a prompt [first, first + num_rows).
  void Start(int64_t first, int64_t num_rows);
  // npu::OpenedSink
  void Add(size_t layer_idx, int64_t first, int64_t count,
           const uint16_t* opened);
  // Of the last rows, of which so many are kept, row `idx`.
  size_t num_kept() const { return num_kept_; }
  neuron::NeuronSet used(size_t layer_idx, size_t idx) const {
    return layers_[layer_idx].row(idx);
  }
  // Tells the stores of all layers, once each was added whole.
  void Teach(RecordStream& stream) const;

 private:
  struct Layer {
    size_t num_neurons = 0;
    uint16_t least = 1;           // magnitude in F16 of who does not rest
    std::vector<uint64_t> words;  // [kLearnedRows, WordsOf(num_neurons)]

    neuron::NeuronSet row(size_t idx) const {
      // A view that reads as well as writes.
      return {const_cast<uint64_t*>(words.data()) +
                  idx * neuron::WordsOf(num_neurons),
              num_neurons};
    }
  };

  std::vector<Layer> layers_;
  int64_t first_kept_ = 0;  // position of the first row that is kept
  size_t num_kept_ = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_OPENED_ROWS_H_
