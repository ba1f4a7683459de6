// What a sparse mode leaves out, what it misses, and what that costs.
#ifndef THERMOCLINE_EVAL_SPARSITY_H_
#define THERMOCLINE_EVAL_SPARSITY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/ffn/gate_probe.h"
#include "engine/session.h"
#include "eval/divergence.h"

namespace thermocline::eval {

// Sums over tokens, of one layer or of several.
struct SparsityCounts {
  uint64_t num_tokens = 0;      // as many for several layers
  uint64_t num_neurons = 0;     // F, or F * E, for each of them
  uint64_t num_active = 0;      // that the input fires, all of them computed
  uint64_t num_candidates = 0;  // whose gate was computed
  uint64_t num_found = 0;       // active ones among the candidates
  uint64_t num_bytes = 0;       // that single tokens would read for their FFN
  uint64_t num_predictor_bytes = 0;  // of these, for the predictor
  uint64_t num_dense_bytes = 0;      // that a dense FFN reads

  // Shares; nullopt of nothing.
  std::optional<double> density() const;     // active / neurons
  std::optional<double> candidates() const;  // candidates / neurons
  std::optional<double> excess() const;      // candidates / active
  std::optional<double> recall() const;      // found / active
  std::optional<double> precision() const;   // found / candidates
  std::optional<double> bytes() const;       // bytes / dense bytes

  // Adds another layer's; num_tokens stays.
  void AddLayer(const SparsityCounts& other);
};

// Watches one session. Active neurons are found by computing all gates with
// the input that the layer has in this session (engine::GateProbe): recall and
// precision are the predictor's, not those of what it makes of later inputs.
class SparsityMeter {
 public:
  explicit SparsityMeter(std::shared_ptr<const model::Model> model);

  // For SessionOptions::observer; this object outlives the session.
  engine::FfnObserver observer();

  // The session that is watched, before it decodes anything: its mode and
  // predictor say what counts as active and what is read. kResourceExhausted.
  Status Begin(const engine::Session& session);

  std::span<const SparsityCounts> layers() const { return layers_; }  // [L]

 private:
  // Bytes that one token reads in a layer.
  struct LayerBytes {
    uint64_t predictor = 0;
    uint64_t tested_row = 0;  // of each candidate
    uint64_t open_row = 0;    // of each whose gate is open: up and down
    uint64_t always = 0;      // a down matrix that cannot be skipped
    uint64_t dense = 0;       // all of the FFN, or of the experts in use
  };

  void See(const engine::FfnObservation& seen);
  LayerBytes BytesOf(size_t layer_idx, const engine::Session& session) const;

  std::shared_ptr<const model::Model> model_;
  std::unique_ptr<engine::GateProbe> probe_;
  std::vector<LayerBytes> bytes_;       // [L]
  std::vector<SparsityCounts> layers_;  // [L]
};

struct Sparsity {
  std::string mode;                    // "fast"
  std::string predictor;               // "trained", "training-free", "none"
  std::vector<SparsityCounts> layers;  // [L], at every position
  SparsityCounts total;                // of all layers together
  Divergence divergence;               // from the dense session
};

// Runs both sessions over the text as MeasureDivergence does, `meter` watching
// `session`. Its errors. Requires that the meter has begun with that session.
Result<Sparsity> MeasureSparsity(engine::Session& session,
                                 engine::Session& dense, SparsityMeter& meter,
                                 std::span<const text::TokenId> tokens,
                                 const Chunks& chunks,
                                 const ProgressFn& progress);

// A row per layer and the sums, then what it does to predictions; one JSON
// object, described in docs/eval.md.
std::string FormatSparsity(const Sparsity& sparsity);
std::string FormatSparsityJson(const Sparsity& sparsity);

}  // namespace thermocline::eval

#endif  // THERMOCLINE_EVAL_SPARSITY_H_
