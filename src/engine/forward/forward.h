// A whole pass through the model.
#ifndef THERMOCLINE_ENGINE_FORWARD_FORWARD_H_
#define THERMOCLINE_ENGINE_FORWARD_FORWARD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "engine/batch.h"

namespace thermocline::engine {

// What goes on around a pass.
struct PassHooks {
  const std::atomic<bool>* cancel = nullptr;  // looked at between layers
  // Called between layers, by the thread that runs the pass.
  std::function<void(size_t num_layers_done)> layers_done;
};

// Passes are virtual, their operations are not: each kind of pass has a loop of
// its own (the host's steps through the layers, and every layer's attention and
// FFN are executors), chosen by what a batch asks for.
// Called by one thread at a time; parallel inside; allocates nothing.
class Forward {
 public:
  virtual ~Forward() = default;

  // Whether Run computes such a run, alone or beside others that it takes.
  virtual bool Takes(const BatchRun& run) const = 0;

  // Computes the rows of `batch`, whose positions are reserved in their
  // sequences and whose ids are in the vocabulary; sequences do not advance.
  // logits: as Batch says.
  // kCorrupt: an embedding, the output of a layer (named) or of the head is not
  // finite. kCancelled: the flag was set. Errors of the executors.
  virtual Status Run(const Batch& batch, std::span<float> logits,
                     const PassHooks& hooks) = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_FORWARD_H_
