// What chooses the neurons of a layer before anything of them is read.
#ifndef THERMOCLINE_PREDICTOR_SELECTOR_H_
#define THERMOCLINE_PREDICTOR_SELECTOR_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "compute/carver.h"
#include "compute/matmul.h"
#include "compute/rows.h"
#include "neuron/active_sets.h"

namespace thermocline::predictor {

// What selectors share that are not at work at the same time. B rows.
struct SelectorScratch {
  static constexpr size_t kSignRows = 1024;

  compute::Rows hidden;             // [B, at least R]
  compute::Rows scores;             // [B, F]
  uint64_t* signs = nullptr;        // [B, WordsOf(D)] of inputs (training-free)
  uint32_t* differences = nullptr;  // [threads, kSignRows] of them, to rows
};

// hidden and scores are the caller's.
SelectorScratch CarveSelectors(uint64_t num_rows, uint64_t width,
                               int num_threads, compute::Carver& carver);

// One per layer, or expert. Called by one thread; parallel inside; allocates
// nothing.
class Selector {
 public:
  virtual ~Selector() = default;

  // Makes sets.named(t), of its layer, what row t needs, from x [T, D], T up to
  // the scratch's B. The same bits for every number of threads and every cut of
  // the rows. kCorrupt: a number that decides is not finite, whatever it chose;
  // then the sets hold anything.
  virtual Status Select(compute::ProductForm form, const compute::Rows& x,
                        size_t num_rows, const neuron::ActiveSets& sets) = 0;

  // Bytes of weights in the host's memory that the last Select read.
  virtual size_t num_bytes() const = 0;
};

// The error of a Select that met numbers that are not finite.
tl::unexpected<Error> ScoresNotFinite();

}  // namespace thermocline::predictor

#endif  // THERMOCLINE_PREDICTOR_SELECTOR_H_
