// Where the time of a session goes: one account per stage of the forward pass.
#ifndef THERMOCLINE_COMPUTE_STAGE_TIMES_H_
#define THERMOCLINE_COMPUTE_STAGE_TIMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "compute/matmul.h"
#include "os/thread_pool.h"

namespace thermocline::compute {

// In the order of a layer. No stage contains another.
enum class Stage : uint8_t {
  kEmbed,
  kNorm,
  kQkv,     // with rotation and storing into the KV cache
  kAttend,  // scores, softmax, values
  kOut,
  kSelect,  // predictors choose neurons
  kRoute,   // experts: router, choice, grouping, weighted sums
  kUpGate,  // with the activation
  kDown,
  kNeurons,   // of listed neurons gate, up and down in one
  kResidual,  // additions to the stream, and checks that it is finite
  kHead,      // with the output norm
};
inline constexpr size_t kNumStages = 12;

// "embed", "up+gate", ...
std::string_view NameOf(Stage stage);

struct StageTotals {
  uint64_t num_calls = 0;
  uint64_t ns = 0;
  uint64_t num_bytes = 0;  // of weights and KV that had to be read; 0: unknown
  uint64_t num_joins = 0;  // see os::PoolCounters
  uint64_t wait_ns = 0;

  StageTotals& operator+=(const StageTotals& other);
};

struct StageTimes {
  std::array<StageTotals, kNumStages> stages;
  StageTotals whole;  // batches, with what is in no stage

  const StageTotals& of(Stage stage) const {
    return stages[static_cast<size_t>(stage)];
  }
  StageTimes& operator+=(const StageTimes& other);
};

// Adds what happens while it lives to an account; does nothing without one.
// Used by the thread that calls the pool, never inside a parallel region.
class ScopedStage {
 public:
  // A stage of compute.times. num_bytes: as in StageTotals.
  ScopedStage(const Compute& compute, Stage stage, size_t num_bytes = 0)
      : ScopedStage(compute,
                    compute.times == nullptr
                        ? nullptr
                        : &compute.times->stages[static_cast<size_t>(stage)],
                    num_bytes) {}
  ScopedStage(const Compute& compute, StageTotals* totals, size_t num_bytes)
      : pool_(compute.pool), totals_(totals) {
    if (totals_ != nullptr) Begin(num_bytes);
  }
  ~ScopedStage() {
    if (totals_ != nullptr) End();
  }
  // Bytes that are known at the end only.
  void AddBytes(size_t num_bytes) {
    if (totals_ != nullptr) totals_->num_bytes += num_bytes;
  }
  ScopedStage(const ScopedStage&) = delete;
  ScopedStage& operator=(const ScopedStage&) = delete;

 private:
  void Begin(size_t num_bytes);
  void End();

  const os::ThreadPool* pool_;
  StageTotals* totals_;
  os::PoolCounters before_;
  std::optional<Stopwatch> watch_;  // no clock is read without an account
};

}  // namespace thermocline::compute

#endif  // THERMOCLINE_COMPUTE_STAGE_TIMES_H_
