#include "predictor/selector.h"

namespace thermocline::predictor {

SelectorScratch CarveSelectors(uint64_t num_rows, uint64_t width,
                               int num_threads, compute::Carver& carver) {
  SelectorScratch scratch;
  scratch.signs = carver.Take<uint64_t>(num_rows, neuron::WordsOf(width));
  scratch.differences = carver.Take<uint32_t>(
      static_cast<uint64_t>(num_threads), SelectorScratch::kSignRows);
  return scratch;
}

tl::unexpected<Error> ScoresNotFinite() {
  return Fail(ErrorCode::kCorrupt,
              "a predictor's scores are not finite: its weights are damaged "
              "(a check of all tensors finds where)");
}

}  // namespace thermocline::predictor
