// What chooses the neurons of a layer before anything of them is read.
#ifndef THERMOCLINE_ENGINE_FFN_SELECTOR_H_
#define THERMOCLINE_ENGINE_FFN_SELECTOR_H_

#include <cstddef>

#include "engine/rows.h"

namespace thermocline::engine {

// One per layer. Called by one thread; parallel inside; allocates nothing.
class Selector {
 public:
  virtual ~Selector() = default;

  // Makes scratch.sparse.candidates(layer, t) of its layer what token t needs,
  // from x [T, D], T up to the session's batch. The same bits for every number
  // of threads and, up to the forms of products, every cut of a batch.
  // Overwrites scratch.up and scratch.gate.
  virtual void Select(const Rows& x, size_t num_tokens) = 0;

  // Bytes of weights that the last Select of one token read.
  virtual size_t num_bytes() const = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_SELECTOR_H_
