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
  kDevice,    // what a device computes is enqueued and waited for
  kResidual,  // additions to the stream, and checks that it is finite
  kHead,      // with the output norm
};
inline constexpr size_t kNumStages = 13;

// "embed", "up+gate", ...
std::string_view NameOf(Stage stage);

// Told of what the host reads, in the order of the work: a clock that stands
// for the host's time. Called by the thread that calls the pool.
class HostWork {
 public:
  virtual ~HostWork() = default;
  // All threads together have read so many bytes of weights and KV.
  virtual void Read(Stage stage, uint64_t num_bytes) = 0;
};

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

// Adds what happens while it lives to an account, and tells compute.work of its
// bytes at its end; does nothing where neither is there. Used by the thread
// that calls the pool, never inside a parallel region.
class ScopedStage {
 public:
  // A stage of compute.times. num_bytes: as in StageTotals.
  ScopedStage(const Compute& compute, Stage stage, size_t num_bytes = 0)
      : pool_(compute.pool),
        totals_(compute.times == nullptr
                    ? nullptr
                    : &compute.times->stages[static_cast<size_t>(stage)]),
        work_(compute.work),
        stage_(stage),
        num_bytes_(num_bytes) {
    if (totals_ != nullptr) Begin();
  }
  // An account that is no stage's; null: none.
  ScopedStage(const Compute& compute, StageTotals* totals)
      : pool_(compute.pool), totals_(totals) {
    if (totals_ != nullptr) Begin();
  }
  ~ScopedStage() {
    if (totals_ != nullptr) End();
    if (work_ != nullptr && num_bytes_ > 0) work_->Read(stage_, num_bytes_);
  }
  // Bytes that are known at the end only.
  void AddBytes(size_t num_bytes) { num_bytes_ += num_bytes; }
  ScopedStage(const ScopedStage&) = delete;
  ScopedStage& operator=(const ScopedStage&) = delete;

 private:
  void Begin();
  void End();

  const os::ThreadPool* pool_;
  StageTotals* totals_;
  HostWork* work_ = nullptr;
  Stage stage_ = Stage::kEmbed;
  size_t num_bytes_ = 0;
  os::PoolCounters before_;
  std::optional<Stopwatch> watch_;  // no clock is read without an account
};

// Bytes of a stage that are known only behind it; compute.work has been told.
inline void AccountBytes(const Compute& compute, Stage stage,
                         size_t num_bytes) {
  if (compute.times == nullptr) return;
  compute.times->stages[static_cast<size_t>(stage)].num_bytes += num_bytes;
}

}  // namespace thermocline::compute

#endif  // THERMOCLINE_COMPUTE_STAGE_TIMES_H_
