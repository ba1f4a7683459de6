// Who computes all layers for the rows of a prompt at once.
#ifndef THERMOCLINE_ENGINE_FORWARD_PROMPT_LAYERS_H_
#define THERMOCLINE_ENGINE_FORWARD_PROMPT_LAYERS_H_

#include "base/status.h"
#include "compute/rows.h"
#include "engine/attention/attention_executor.h"
#include "engine/forward/forward.h"

namespace thermocline::engine {

// In the place of the layer loop, for runs that it takes; embedding, checks and
// head are the loop's.
// Called by one thread at a time; parallel inside.
class PromptLayers {
 public:
  virtual ~PromptLayers() = default;

  // Whether Run computes these rows of a prompt, and it pays.
  virtual bool Takes(const SequenceRows& run) const = 0;

  // residual [run.num_rows, D]: from what the first layer reads to what the
  // last one gives; after an error, something. Puts keys and values into the
  // sequence, whose pages are reserved; it does not advance. Errors of whoever
  // computes it; kCancelled.
  virtual Status Run(const SequenceRows& run, const compute::Rows& residual,
                     const PassHooks& hooks) = 0;

  // The pass failed after Run: its rows will not be the sequence's.
  virtual void Forget() = 0;

  // Whether the host is to compute in its place, now and from now on, when Run
  // fails.
  virtual bool yields_to_host() const = 0;
  // The host does so: Takes says no from now on.
  virtual void GiveUp() = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_PROMPT_LAYERS_H_
