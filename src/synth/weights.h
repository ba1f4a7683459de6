// The rows of a synthetic model's matrices as numbers, one at a time and in any
// order.
#ifndef THERMOCLINE_SYNTH_WEIGHTS_H_
#define THERMOCLINE_SYNTH_WEIGHTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "synth/plan.h"

namespace thermocline::synth {

// Rows are written into `row`, whose size is the matrix's number of columns:
// D where nothing else is said. Neurons are numbered through [N], layers count
// from 0. The same bits on every machine.
//   Immutable; safe from any thread. A row takes D log D steps.
class SynthWeights {
 public:
  explicit SynthWeights(SynthPlan plan);

  const SynthPlan& plan() const { return plan_; }
  const text::Vocab& vocab() const { return vocab_; }
  const WordCycle& words() const { return words_; }

  void Embedding(uint64_t token, std::span<float> row) const;
  // Of the learned table: position p is row p + 2.
  void Position(uint64_t table_row, std::span<float> row) const;
  // The token before this one in the cycle of words makes it the likeliest.
  void Head(uint64_t token, std::span<float> row) const;

  // Of the first layer: what its attention needs to see a window.
  // Row i of a head's queries or keys; the head is the KV head's number.
  void QueryOrKey(uint64_t kv_head, uint64_t i, std::span<float> row) const;
  // Of the norm of a head's queries or keys, where there is one.
  double HeadNorm(uint64_t layer_idx) const;
  void Value(uint64_t row_idx, std::span<float> row) const;
  void AttentionOut(uint64_t dim, std::span<float> row) const;  // [H * K]

  // What neurons look at, and their threshold: a row of the gate, or of up.
  void Gate(uint64_t layer_idx, uint64_t neuron, std::span<float> row) const;
  void Router(uint64_t layer_idx, uint64_t expert, std::span<float> row) const;

  // Our predictors read the normed stream, PowerInfer's the stream itself.
  enum class Reads { kNormed, kStream };
  // Row `row_idx` < needed_rank() of a predictor's first matrix.
  void PredictorUp(uint64_t layer_idx, uint64_t row_idx, Reads reads,
                   std::span<float> row) const;
  // Of its second matrix [N, R]; zeros behind needed_rank().
  void PredictorDown(uint64_t layer_idx, uint64_t neuron,
                     std::span<float> row) const;

  // The deviations of random matrices, everything else being 1 or so: rows that
  // read the normed stream; down columns; attention's output.
  double reading_deviation() const;
  double down_deviation() const;
  double attention_out_deviation() const;

  // P(fires) = P(N(0, 1) > threshold), in a topic.
  double Threshold(uint64_t layer_idx, uint64_t neuron,
                   uint64_t topic = 0) const;
  double CandidateThreshold(uint64_t layer_idx, uint64_t neuron,
                            uint64_t topic = 0) const;
  uint64_t TopicOf(uint64_t token) const;
  // P(fires) in a text of all topics; of a mixture P(the neuron's expert is
  // chosen and it fires).
  double FiringShare(uint64_t layer_idx, uint64_t neuron) const;

 private:
  // `factor` times +1, -1, +1, ... over the constant of a topic; what else the
  // row has stays.
  void Constant(double factor, uint64_t topic, std::span<float> row) const;
  // factor * sum of coefs * directions, over the basis; those without a
  // coefficient are left out.
  void AddBasis(double factor, std::span<const float> coefs,
                std::span<float> row) const;
  // Random coefficients with the norm 1.
  void Coefs(SynthPart part, uint64_t place, uint64_t index,
             std::span<float> coefs) const;
  double InputRms(uint64_t layer_idx) const;
  // What makes products with a sum of unit coefficients normal variables.
  double BasisGain(uint64_t layer_idx, double rms) const;
  double ConstantGain(double rms) const;
  uint64_t num_topics() const { return plan_.options.num_topics; }
  // The place of a topic's layer among ranks_.
  uint64_t OrderOf(uint64_t layer_idx, uint64_t topic) const {
    return topic * plan_.num_layers + layer_idx;
  }
  // The direction that a row of the first layer's V has; nullopt: none.
  std::optional<uint64_t> DirectionOf(uint64_t value_row) const;
  // The window through which the first layer passes a direction on.
  const Window& WindowOf(uint64_t direction) const;

  SynthPlan plan_;
  text::Vocab vocab_;
  WordCycle words_;
  SignBasis basis_;
  // Of a topic's layer at topic * L + layer_idx.
  std::vector<std::vector<uint32_t>> ranks_;         // [N]
  std::vector<std::vector<uint32_t>> expert_ranks_;  // [E], with biases
};

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_WEIGHTS_H_
