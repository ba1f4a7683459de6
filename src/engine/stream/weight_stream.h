// Weights that stay in the model's file, whatever their unit.
#ifndef THERMOCLINE_ENGINE_STREAM_WEIGHT_STREAM_H_
#define THERMOCLINE_ENGINE_STREAM_WEIGHT_STREAM_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/stream/stream_options.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

// Threads  one caller at a time.
class WeightStream {
 public:
  virtual ~WeightStream() = default;

  virtual const storage::BlockReader& reader() const = 0;
  // Since the beginning, num_rows aside.
  virtual const StreamTotals::OfPhase& counts() const = 0;
  // "FFN records 38 % in 2.10 GiB of slots (slow)".
  virtual std::string Describe() const = 0;

  // kIo: the file was written to since it was opened: what was read of it may
  // be a mixture.
  Status CheckUnchanged() const { return reader().CheckUnchanged(); }
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_WEIGHT_STREAM_H_
