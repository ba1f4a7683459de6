// What a table of speeds calls a model, and how large it is.
#ifndef THERMOCLINE_BENCH_MODEL_TITLE_H_
#define THERMOCLINE_BENCH_MODEL_TITLE_H_

#include <cstdint>
#include <string>

#include "model/model.h"

namespace thermocline::bench {

struct ModelTitle {
  // "llama 8.80 M F16": architecture, weights, and the type that most bytes of
  // them have, inside records too; "synthetic llama ..." of what 'thermocline
  // synth' made.
  std::string name;
  uint64_t num_bytes = 0;  // of all tensors
  // Weights, predictors' too; not what prepared files say about them (signs,
  // counts, orders, self-tests).
  uint64_t num_params = 0;
};

ModelTitle TitleOf(const model::Model& model);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_MODEL_TITLE_H_
