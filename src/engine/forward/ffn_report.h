// Tells an observer what a layer's FFN did.
#ifndef THERMOCLINE_ENGINE_FORWARD_FFN_REPORT_H_
#define THERMOCLINE_ENGINE_FORWARD_FFN_REPORT_H_

#include <cstddef>
#include <span>

#include "compute/rows.h"
#include "engine/attention/attention_executor.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/scratch.h"
#include "model/layer_spec.h"

namespace thermocline::engine {

// Rows of a phase, whose FFN has run.
struct FfnReport {
  const FfnObserver* observer = nullptr;
  const Scratch* scratch = nullptr;  // of the pass
  const model::FfnSpec* spec = nullptr;
  size_t layer_idx = 0;
  size_t first_row = 0;                     // of the phase in the pass
  std::span<const SequenceRows> sequences;  // their rows count from there
  compute::Rows gate;                       // FfnExecutor::gate()
};

// Row by row, in the order of the pass. Allocates nothing.
void ReportFfn(const FfnReport& report);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_FFN_REPORT_H_
