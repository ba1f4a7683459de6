// One sequence being computed: tokens in, logits out. A facade over an engine
// with threads, KV cache and sequence of its own.
#ifndef THERMOCLINE_ENGINE_SESSION_H_
#define THERMOCLINE_ENGINE_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/kv/kv_pool.h"
#include "engine/memory_plan.h"
#include "engine/runtime.h"
#include "engine/weight_bytes.h"
#include "model/model.h"

namespace thermocline::engine {

// Owns     runtime and sequence. Keeps the model alive.
// Threads  one caller at a time.
// Invariants
//   1. Logits are those of Engine (its invariant 1): besides model, split,
//      thresholds, mode, predictor, ISA and KV types they depend on which
//      tokens came by Prompt and which by Generate, not on how these calls and
//      batches cut them.
//   2. After an error, position() is what it was before the call.
//   3. Neither allocates anything, but for what Engine::Run may.
class Session {
 public:
  // Errors of Runtime::Create.
  static Result<std::unique_ptr<Session>> Create(
      std::shared_ptr<const model::Model> model, const SessionOptions& options);
  virtual ~Session() = default;

  // Compute `tokens` at positions position()... and move on behind them, as
  // rows of the phase: a prompt's, or tokens that were generated (or guessed).
  // logits: [V] for kLast, [T, V] for kAll, unused for kNone; size CHECKed.
  // kResourceExhausted: more tokens than the context has left (nothing is
  // computed). Other errors of Engine::Run.
  Status Prompt(std::span<const text::TokenId> tokens, LogitsOf which,
                std::span<float> logits) {
    return Decode(tokens, Phase::kPrompt, which, logits);
  }
  Status Generate(std::span<const text::TokenId> tokens, LogitsOf which,
                  std::span<float> logits) {
    return Decode(tokens, Phase::kGenerate, which, logits);
  }
  virtual Status Decode(std::span<const text::TokenId> tokens, Phase phase,
                        LogitsOf which, std::span<float> logits) = 0;

  virtual int64_t position() const = 0;
  virtual int64_t context() const = 0;
  virtual int num_threads() const = 0;
  virtual kernels::Isa isa() const = 0;
  virtual FfnMode ffn() const = 0;  // of what is generated: never kAuto
  // Of kFast kTrained or kTrainingFree, else kNone.
  virtual PredictorChoice predictor() const { return PredictorChoice::kNone; }
  // What generated tokens have read so far; all 0 in kDense.
  virtual SparseTotals sparse_totals() const { return {}; }
  // Of records that stay in the file: null, and nothing, without.
  virtual const WeightStream* stream() const { return nullptr; }
  virtual StreamTotals stream_totals() const { return {}; }
  virtual const MemoryPlan& memory() const = 0;
  // What lies on the device, when the session was made; nothing without one.
  virtual const Placement& placement() const {
    static const Placement kNone;
    return kNone;
  }
  // Engine::prompt_device, Engine::prompt_times.
  virtual std::string prompt_device() const { return ""; }
  virtual npu::StaticTimes prompt_times() const { return {}; }
  // Bytes that computing a token at `position` reads, where a device does it
  // from weights in a form of its own; nothing: they are the file's.
  virtual std::optional<uint64_t> device_token_bytes(
      int64_t /*position*/) const {
    return std::nullopt;
  }
  virtual const model::Model& model() const = 0;

  // Forgets everything from position `length` on. Requires length <=
  // position(). (CHECKed)
  virtual void Truncate(int64_t length) = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_SESSION_H_
