// Models of real sizes and no meaning, for measuring speed: their neurons fire
// as sparsely, as unevenly and as steadily as is asked. How: docs/synth.md.
#ifndef THERMOCLINE_SYNTH_SYNTH_H_
#define THERMOCLINE_SYNTH_SYNTH_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "synth/plan.h"
#include "synth/tensors.h"
#include "synth/weights.h"

namespace thermocline::synth {

struct SynthJob {
  int num_threads = 0;                        // as os::ThreadPool's
  const std::atomic<bool>* cancel = nullptr;  // looked at every few MiB
  ProgressFn progress;                        // bytes of the tensors
};

// Whether PowerInfer can run such a model: kUnsupported says why not (experts;
// types other than F16 and Q4_0, which its kernels take for F16).
Status CheckPowerInfer(const SynthPlan& plan);

// Writes the model to `output`; for kPowerInfer CheckPowerInfer must hold
// (CHECKed). The same bytes for the same plan on every machine and for every
// number of threads. Memory: the neurons' order, the vocabulary, and some 16
// MiB. The file appears at the end, whole or not at all. kIo, kCancelled.
Status WriteSynthModel(const SynthWeights& weights, SynthLayout layout,
                       const std::string& output, const SynthJob& job);

// Writes a text of num_words words, in the order that the model would write
// them in, words_per_line in each line (0: all in one). Each is a token to whom
// reads line by line.
Status WriteSynthText(const SynthWeights& weights, uint64_t num_words,
                      uint64_t words_per_line, const std::string& output);

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_SYNTH_H_
