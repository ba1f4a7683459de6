// The model, ready to compute: batches of rows of several sequences in
// (batch.h), logits out. It checks a batch, reserves its KV pages, runs one
// pass (forward/forward.h) and lets the sequences grow. For one sequence with
// all it needs see session.h; for threads, KV pages and memory see runtime.h.
#ifndef THERMOCLINE_ENGINE_ENGINE_H_
#define THERMOCLINE_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "engine/batch.h"
#include "engine/engine_options.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/forward/forward.h"
#include "engine/kv/kv_pool.h"
#include "engine/stream/weight_stream.h"
#include "model/model.h"
#include "npu/static_model.h"
#include "os/thread_pool.h"

namespace thermocline::engine {

// Owns     executors and scratch. Keeps the model alive; borrows the threads,
//          which several engines may share if they run in turns, and knows
//          sequences by what batches name.
// Threads  one caller at a time.
// Invariants
//   1. A row's logits depend on the tokens of its sequence and their phases;
//      on the model, with its split's order of neurons (the order of sums) and
//      its thresholds, of predictors and of FFNs; on ISA and KV types; and on
//      the options that choose neurons: mode, predictor, dense prompts. Not on
//      the number of threads, on what logits are asked for, on other rows, or
//      on how a sequence was cut into batches, or on which records are in
//      memory (stream/). What lies on a device counts as an option, and so
//      does who computes prompts, which may depend on their length; with
//      attention there and KV pages in 8 bits it also matters whether a page
//      was copied, for a fork (kv/device_kv.h). Where a device computes prompts
//      and KV pages have 8 bits, the rows of one run see each other's keys and
//      values before they are rounded, so that it matters how a prompt was cut
//      into runs; those of earlier runs they see as the pages have them.
//   2. After an error no sequence has grown.
//   3. Run allocates nothing, but for the pass in which it leaves a device
//      (DeviceLoss::kHost), for lists of whom a policy moves where weights
//      stream (residency::Policy::Propose), and for prompts that a device for
//      static graphs computes (npu/static_model.h): what these keep is planned,
//      what the device itself takes is not.
class Engine {
 public:
  // kInvalidArgument when the options do not fit the model (engine_plan.h);
  // kUnsupported when norms or biases are not aligned to floats; kCorrupt when
  // the predictors are those of another model (model::SelfTest);
  // kResourceExhausted: no memory; of the last of prompts.devices, if none of
  // them can and the host may not.
  static Result<std::unique_ptr<Engine>> Create(
      std::shared_ptr<const model::Model> model, const EngineOptions& options,
      os::ThreadPool* pool);
  virtual ~Engine() = default;

  // Computes the batch, and advances its sequences. logits: as Batch says; size
  // CHECKed. A sequence that is named twice, and prompts behind what is
  // generated, are CHECKed.
  // kInvalidArgument: an id outside the vocabulary, named; no tokens; more rows
  // than options.max_rows. kResourceExhausted: a sequence has no room
  // (KvSequence::Reserve); nothing is computed. kIo: a neuron could not be read
  // (ffn/record_store.h). Other errors of Forward::Run.
  virtual Status Run(const Batch& batch, std::span<float> logits,
                     const PassHooks& hooks) = 0;
  Status Run(const Batch& batch, std::span<float> logits) {
    return Run(batch, logits, PassHooks());
  }

  virtual FfnMode ffn() const = 0;  // of what is generated: never kAuto
  // Of kFast kTrained or kTrainingFree, else kNone.
  virtual PredictorChoice predictor() const = 0;
  // What generated rows have read so far; all 0 in kDense.
  virtual SparseTotals sparse_totals() const = 0;
  // Where records come from that stay in the file; null: they are in memory.
  virtual const WeightStream* stream() const = 0;
  virtual StreamTotals stream_totals() const = 0;  // of passes without error
  // "OpenVINO 2026.4.1 on NPU (...), ..., NMSE 2e-5 against the host": who
  // computes prompts; empty: the host, from the beginning or from a failure on.
  virtual std::string prompt_device() const { return ""; }
  virtual npu::StaticTimes prompt_times() const { return {}; }
  virtual const model::Model& model() const = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ENGINE_H_
