// Where the time of a session goes: one account per stage of the forward pass.
#ifndef THERMOCLINE_COMPUTE_STAGE_TIMES_H_
#define THERMOCLINE_COMPUTE_STAGE_TIMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/timeline.h"
#include "compute/matmul.h"
#include "os/thread_pool.h"

namespace thermocline::compute {

// In the order of a layer. No stage contains another.
enum class Stage : uint8_t {
  kEmbed,
  kRead,  // weights that stay in the file are waited for
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
inline constexpr size_t kNumStages = 14;

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

// The rows of a timeline in which a session's host is: its passes, and in them
// the stages. Used by the thread that calls the pool.
class StageTimeline {
 public:
  // Outlived by `timeline`.
  explicit StageTimeline(Timeline* timeline);

  double Now() const { return timeline_->Now(); }
  // The stages from now on are of it, but for embedding and head, until the
  // pass is added.
  void SetLayer(int32_t layer_idx) { layer_idx_ = layer_idx; }
  // From begin_s to now. wait_ns: as PoolCounters count it.
  void AddStage(Stage stage, double begin_s, uint64_t num_bytes,
                uint64_t wait_ns);
  // "token 13", "prompt of 12"; < 0: no number.
  void AddPass(std::string_view name, int64_t number, double begin_s);

 private:
  Timeline* timeline_;
  Timeline::Row passes_, stages_;
  int32_t layer_idx_ = -1;
};

// Adds what happens while it lives to an account and a timeline, and tells
// compute.work of its bytes at its end; does nothing where none of them is
// there. Used by the thread that calls the pool, never inside a parallel
// region.
class ScopedStage {
 public:
  // A stage of compute.times. num_bytes: as in StageTotals.
  ScopedStage(const Compute& compute, Stage stage, size_t num_bytes = 0)
      : pool_(compute.pool),
        totals_(compute.times == nullptr
                    ? nullptr
                    : &compute.times->stages[static_cast<size_t>(stage)]),
        work_(compute.work),
        timeline_(compute.timeline),
        stage_(stage),
        num_bytes_(num_bytes) {
    if (totals_ != nullptr || timeline_ != nullptr) Begin();
  }
  // An account that is no stage's; null: none.
  ScopedStage(const Compute& compute, StageTotals* totals)
      : pool_(compute.pool), totals_(totals) {
    if (totals_ != nullptr) Begin();
  }
  ~ScopedStage() {
    if (totals_ != nullptr) End();
    if (work_ != nullptr && num_bytes_ > 0) work_->Read(stage_, num_bytes_);
    // Behind the work, which may move the clock.
    if (timeline_ != nullptr) AddSpan();
  }
  // Bytes that are known at the end only.
  void AddBytes(size_t num_bytes) { num_bytes_ += num_bytes; }
  // Bytes that are drawn alone: compute.work has been told of them.
  void DrawBytes(size_t num_bytes) { num_drawn_bytes_ += num_bytes; }
  ScopedStage(const ScopedStage&) = delete;
  ScopedStage& operator=(const ScopedStage&) = delete;

 private:
  void Begin();
  void End();
  void AddSpan();

  const os::ThreadPool* pool_;
  StageTotals* totals_;
  HostWork* work_ = nullptr;
  StageTimeline* timeline_ = nullptr;
  double begin_s_ = 0.0;  // of the timeline
  Stage stage_ = Stage::kEmbed;
  size_t num_bytes_ = 0;
  size_t num_drawn_bytes_ = 0;  // besides
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
