// Weights that stay in the model's file, whatever their unit.
#ifndef THERMOCLINE_ENGINE_STREAM_WEIGHT_STREAM_H_
#define THERMOCLINE_ENGINE_STREAM_WEIGHT_STREAM_H_

#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"
#include "engine/stream/stream_options.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

class LivePolicy;

// Threads  one caller at a time.
class WeightStream {
 public:
  virtual ~WeightStream() = default;

  virtual const storage::BlockReader& reader() const = 0;
  // Since the beginning, num_rows aside.
  virtual const StreamTotals::OfPhase& counts() const = 0;
  // "FFN records 38 % in 2.10 GiB of slots (slow)".
  virtual std::string Describe() const = 0;
  virtual StreamUnit unit() const = 0;
  // Who says what stays in memory; null where that is always the same.
  virtual const LivePolicy* live() const { return nullptr; }
  // LivePolicy::set_rests.
  virtual void SetPolicyRests(bool /*rests*/) {}
  // Why this is the unit; empty: there is no other.
  const std::string& reason() const { return reason_; }
  void set_reason(std::string reason) { reason_ = std::move(reason); }

  // kIo: the file was written to since it was opened: what was read of it may
  // be a mixture.
  Status CheckUnchanged() const { return reader().CheckUnchanged(); }

 private:
  std::string reason_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_WEIGHT_STREAM_H_
