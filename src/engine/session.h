// One sequence being computed: tokens in, logits out.
#ifndef THERMOCLINE_ENGINE_SESSION_H_
#define THERMOCLINE_ENGINE_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/ffn/observer.h"
#include "engine/ffn/sparse_totals.h"
#include "kernels/isa.h"
#include "model/model.h"
#include "tensor/dtype.h"

namespace thermocline::engine {

inline constexpr int64_t kDefaultContextMax = 4096;

// The smallest batch that reads nearly all neurons anyway.
inline constexpr int64_t kDensePrefill = 9;

struct Profile;

struct SessionOptions {
  int64_t context = 0;         // positions; 0: the model's, at most 4096
  int num_threads = 0;         // 0: physical cores
  DType k_type = DType::kF16;  // F32, F16, Q8_0
  DType v_type = DType::kF16;
  int64_t batch = 512;  // tokens computed together in prefill, at most
  // > 0: products and attention take the form that batches of so many tokens
  // get (KernelTable::batch_for), whatever is decoded together: then no cut of
  // a sequence changes a bit. 0: the form that is fastest for each batch.
  int64_t products_batch = 0;
  kernels::Isa isa = kernels::BestIsa();
  FfnMode ffn = FfnMode::kAuto;
  PredictorChoice predictor = PredictorChoice::kAuto;
  // > 0: batches of at least so many tokens compute all neurons, whatever `ffn`
  // says, as prompts do (kDensePrefill). 0: every position is computed as
  // asked, as measures of a mode need it.
  int64_t dense_from = 0;
  // Costs a few bits per neuron and token of a batch, and room for gates and
  // stream where nothing else keeps them (scratch.h).
  FfnObserver observer;
  const std::atomic<bool>* cancel = nullptr;  // looked at between layers
  ProgressFn progress;                        // tokens of a long prefill
  Profile* profile = nullptr;  // Decode adds to it (profile.h); null: nobody
};

// Bytes of anonymous memory that a session allocates, all at Create.
struct MemoryNeed {
  uint64_t kv_bytes;
  uint64_t scratch_bytes;  // activations of one batch, per-thread scratch
  uint64_t sign_bytes;     // of weights, for PredictorChoice::kFree
  uint64_t total() const { return kv_bytes + scratch_bytes + sign_bytes; }
};

// kInvalidArgument when the options do not fit the model (context < 0 or beyond
// learned positions, a KV type that head widths do not divide into, batch < 1,
// threads that a pool refuses, dense_from < 0, a mode or predictor that the
// model is not for: ffn/ffn_choice.h); kResourceExhausted when a product
// overflows.
Result<MemoryNeed> PlanMemory(const model::Config& config,
                              const SessionOptions& options);

enum class LogitsOf { kNone, kLast, kAll };

// Owns     KV cache, scratch and thread pool. Keeps the model alive.
// Threads  one caller at a time.
// Invariants
//   1. Logits depend on the tokens, model, ISA, KV types and FFN mode only: not
//      on the number of threads, on what logits are asked for, or on how a
//      sequence was cut into Decode calls and batches, as long as these are of
//      sizes that get the same form of products and attention (products_batch)
//      and lie on the same side of dense_from. Results of different forms
//      differ by rounding, those on its two sides by what a mode leaves out.
//   2. After an error, position() is what it was before the call.
//   3. Decode allocates nothing.
class Session {
 public:
  // Besides PlanMemory's errors: kResourceExhausted when the need exceeds the
  // machine's RAM, before anything is allocated, with both numbers;
  // kUnsupported when norms or biases are not aligned to floats; kIo when there
  // are no more threads; kCorrupt when the predictors are those of another
  // model (model::SelfTest).
  static Result<std::unique_ptr<Session>> Create(
      std::shared_ptr<const model::Model> model, const SessionOptions& options);
  virtual ~Session() = default;

  // Computes `tokens` at positions position()... and moves on behind them.
  // logits: [V] for kLast, [T, V] for kAll, unused for kNone; size CHECKed.
  // kResourceExhausted: more tokens than the context has left (nothing is
  // computed). kInvalidArgument: an id outside the vocabulary, named; no
  // tokens. kCorrupt: an embedding, a layer's output (the layer named) or the
  // logits are not finite.
  // kCancelled: the flag was set.
  virtual Status Decode(std::span<const text::TokenId> tokens, LogitsOf which,
                        std::span<float> logits) = 0;

  virtual int64_t position() const = 0;
  virtual int64_t context() const = 0;
  virtual int num_threads() const = 0;
  virtual kernels::Isa isa() const = 0;
  virtual FfnMode ffn() const = 0;  // what runs: never kAuto
  // Of kFast kTrained or kFree, else kNone.
  virtual PredictorChoice predictor() const { return PredictorChoice::kNone; }
  // What single tokens have read so far; all 0 in kDense.
  virtual SparseTotals sparse_totals() const { return {}; }
  virtual const MemoryNeed& memory() const = 0;
  virtual const model::Model& model() const = 0;

  // Forgets everything from position `length` on. Requires length <=
  // position(). (CHECKed)
  virtual void Truncate(int64_t length) = 0;
};

// Bytes of weights that decoding one token reads when every neuron is computed:
// all matrices but those of experts, of which the share that a token uses, and
// the embedding tables, of which one row (all of it when it is the head too).
// kFast: with the trained predictors' own, which makes it an upper bound; how
// much less the FFN reads depends on what fires.
uint64_t WeightBytesPerToken(const model::Model& model,
                             FfnMode ffn = FfnMode::kDense);

// The same for num_tokens tokens computed together, with a row of the embedding
// tables each; of experts as many as they can choose, at most.
uint64_t WeightBytesPerBatch(const model::Model& model, FfnMode ffn,
                             uint64_t num_tokens);

// Those of a token that every mode reads: without the FFNs' matrices and
// without predictors. SparseTotals::num_bytes counts the others.
uint64_t FixedWeightBytesPerToken(const model::Model& model);

// Bytes of the KV cache that a token at `position` reads.
uint64_t KvBytesPerToken(const model::Config& config,
                         const SessionOptions& options, int64_t position);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_SESSION_H_
