// GGUF files to smaller GGUF files.
#ifndef THERMOCLINE_QUANTIZE_QUANTIZE_H_
#define THERMOCLINE_QUANTIZE_QUANTIZE_H_

#include <atomic>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "gguf/gguf.h"
#include "quantize/plan.h"

namespace thermocline::quantize {

struct QuantizeJob {
  int num_threads = 0;                        // as os::ThreadPool's
  const std::atomic<bool>* cancel = nullptr;  // looked at every few MiB
  ProgressFn progress;                        // bytes of `file` that are done
};

// Writes what `plan` says of `file`, in one file of the same container: the
// metadata but for split.*, with general.file_type and
// general.quantization_version set, and every tensor. The bytes do not depend
// on the number of threads. Memory: some 20 MiB, whatever the model.
// kCorrupt, naming tensor and element: NaN, infinity, or a number too large for
// the type. kIo; kCancelled. On any error nothing is left behind.
Status WriteQuantized(const gguf::File& file, const QuantizePlan& plan,
                      const std::string& output, const QuantizeJob& job);

}  // namespace thermocline::quantize

#endif  // THERMOCLINE_QUANTIZE_QUANTIZE_H_
