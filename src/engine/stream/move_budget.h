// How much may be read beside the computation, from measured times.
//
// DynamicInfer E.3: moves are free as long as they fit the time in which
// nothing waits for the link.
#ifndef THERMOCLINE_ENGINE_STREAM_MOVE_BUDGET_H_
#define THERMOCLINE_ENGINE_STREAM_MOVE_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace thermocline::engine {

// Layers run one after the other; between two of them, while attention is
// computed, nobody needs the drive. What it could read then is credit, which a
// layer leaves to the next ones. Knows no clock: all times are the caller's,
// in seconds, and ascend.
class MoveBudget {
 public:
  explicit MoveBudget(size_t num_layers) : windows_(num_layers, 0.0) {}

  // A layer's run begins to read.
  void BeginRun(double now);
  // It is over. What it had to wait for: so many bytes, which took so long.
  // is_idle: nothing else is being read.
  void EndRun(size_t layer_idx, double now, uint64_t read_bytes,
              double read_seconds, bool is_idle);
  // Units of so many bytes that may be read behind the layer's run, which has
  // ended; none before rates and times are known. Once for each run.
  uint64_t Take(size_t layer_idx, size_t unit_bytes);
  // Of them, those that are not.
  void GiveBack(uint64_t num_bytes) {
    credit_ += static_cast<double>(num_bytes);
  }

 private:
  struct End {
    size_t layer_idx = 0;
    double at = 0.0;
    bool is_idle = false;
  };

  std::vector<double> windows_;  // [L] seconds behind a layer's run
  double bytes_per_s_ = 0.0;
  double credit_ = 0.0;  // bytes
  std::optional<End> last_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_MOVE_BUDGET_H_
