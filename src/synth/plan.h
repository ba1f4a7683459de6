// Everything about a synthetic model that is decided before its first weight.
#ifndef THERMOCLINE_SYNTH_PLAN_H_
#define THERMOCLINE_SYNTH_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "synth/basis.h"
#include "synth/shape.h"
#include "synth/vocab.h"
#include "synth/window.h"
#include "tensor/dtype.h"

namespace thermocline::synth {

struct SynthOptions {
  std::string like = "llama-1b";
  DType dtype = DType::kQ4_0;  // of most matrices; see CanSynthesize
  double density = 0.1;        // of a mixture: of each expert that is used
  double skew = 0.26;          // likewise
  double locality = 0.6;  // of a mixture: of an expert that both tokens use
  // Of a mixture: the smallest share of the experts that makes 80 % of all
  // choices, and the share of a token's experts that the token before had.
  // Absent: every expert is as busy as any other, and their locality follows
  // from that of the neurons.
  std::optional<double> expert_skew;
  std::optional<double> expert_locality;
  // Texts run through so many topics, a stretch of words in each
  // (WordCycle::TopicOf); in each neurons have another order of busyness, and
  // experts with a skew too.
  uint64_t num_topics = 1;
  uint64_t seed = 1;
  std::optional<uint64_t> num_layers;  // fewer than the shape has
  bool with_predictor = true;          // in prepared files
  // In prepared files: records at multiples of neuron::kStorageAlignment, all
  // with their gate.
  bool for_storage = false;
};

inline constexpr uint64_t kMaxSynthTopics = 64;
// Of a predictor's first matrix: a block of its second.
inline constexpr uint64_t kRowsPerConstant = 32;
// Candidates of the predictors for each neuron that fires.
inline constexpr double kCandidateRatio = 1.6;
// Of the bytes of an FFN: what its predictor takes at most.
inline constexpr double kPredictorShare = 0.1;

// How the router of a mixture chooses (synth_experts.h).
struct SynthRouter {
  // By rank of the expert, the busiest first [E]; empty: all are 0.
  std::vector<double> biases;
  std::vector<double> shares;  // P(chosen) likewise; empty: all alike
  // Directions of the router's own, behind those of the neurons, which pass the
  // first attention in KV heads of their own, by a window of their own: then
  // experts change faster or slower than neurons. 0: it reads those of the
  // neurons.
  uint64_t num_directions = 0;
  uint64_t first_kv_head = 0;  // of those heads
  Window window;
};

// How the stream of a synthetic model is made. Its dimensions are parts:
//   constant   the same at every token of a topic, each of which has one, and 0
//              in those of other topics: a neuron's weights there are its
//              threshold in that topic. As wide as a block, so that quantised
//              blocks hold either a threshold or a direction;
//   position   with learned positions: angles that attention compares;
//   basis      the sum over k of u_k * direction k: what neurons look at. Row i
//              of the gate (of up, without a gate) is a random sum of
//              directions, so that its product with the stream is a normal
//              variable, and neuron i fires if that exceeds its threshold.
// Attention in the first layer mixes the last tokens (synth_window.h); what all
// other blocks add takes as long as ever and is small, so that every
// layer reads about the same u.
struct SynthPlan {
  SynthShape shape;
  SynthOptions options;
  uint64_t num_layers = 0;

  uint64_t constant_width = 0;  // of a topic's; the first at dimension 0
  uint64_t position_width = 0;  // behind it; 0: positions are RoPE's
  uint64_t position_begin() const {
    return constant_width * options.num_topics;
  }
  uint64_t basis_begin() const { return position_begin() + position_width; }
  uint64_t basis_width() const { return shape.width - basis_begin(); }
  uint64_t num_directions = 0;  // a multiple of 16
  SynthRouter router;
  uint64_t all_directions() const {
    return num_directions + router.num_directions;
  }

  // Ranks: multiples of 32, at least needed_rank().
  uint64_t rank = 0;             // of our predictor, in Q8_0
  uint64_t powerinfer_rank = 0;  // of PowerInfer's, in the matrices' type
  // A row for each direction and one for its opposite, then for each topic a
  // block of rows that read its constant; what is left takes time and says
  // nothing.
  uint64_t needed_rank() const {
    return 2 * num_directions + kRowsPerConstant * options.num_topics;
  }

  // By rank of the neuron, the busiest first [F].
  std::vector<double> shares;                // P(fires)
  std::vector<double> thresholds;            // fires: N(0, 1) > threshold
  std::vector<double> candidate_thresholds;  // lower
  double correlation = 0.0;                  // of u_k with itself a token later
  std::vector<double> frequencies;           // radians per position
  Window window;

  // Deviation of the stream in the basis behind the first attention, and its
  // value in the constant.
  double scale = 16.0;
  double sign_gain = 1.0;      // synth_codes.h, of dtype
  double embedding_rms = 0.0;  // of the first layer's input
  double stream_rms = 0.0;     // of all FFNs' inputs but those below
  // What layer `layer_idx`'s FFN reads: in parallel blocks the first one comes
  // before any attention.
  bool ReadsEmbedding(uint64_t layer_idx) const {
    return layer_idx == 0 && shape.arch().parallel_block;
  }

  uint64_t predictor_bytes = 0;  // of one layer, or of one of its experts
  uint64_t ffn_bytes = 0;        // likewise

  bool has_positions() const { return position_width > 0; }
  // "density 0.1, skew 0.26, locality 0.6, seed 1"
  std::string Describe() const;
};

// kInvalidArgument: an unknown shape, a type that is not made, or whose blocks
// are too wide for the shape; density, skew or locality that are not possible
// or do not go together (synth_activity.h); more layers than the shape has.
Result<SynthPlan> PlanSynth(const SynthOptions& options);

// What random numbers are for.
enum class SynthPart : uint64_t {
  kBasis,
  kWords,
  kEmbedding,
  kNeuronOrder,
  kGate,
  kUp,
  kDown,
  kAttention,
  kRouter,
  kFiller,
  kExpertEmbedding,
  kExpertOrder,
  kTopicOrder,
};
// A generator of its own for each part, `place` (a layer or tensor) and row:
// rows are made in any order, by any thread.
Random RandomFor(uint64_t seed, SynthPart part, uint64_t place, uint64_t row);

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_PLAN_H_
