// What it takes to run a model: threads, KV cache, engine, planned together.
#ifndef THERMOCLINE_ENGINE_RUNTIME_H_
#define THERMOCLINE_ENGINE_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "engine/device/placement_rules.h"
#include "engine/device/planner.h"
#include "engine/engine.h"
#include "engine/engine_options.h"
#include "engine/kv/kv_layout.h"
#include "engine/kv/kv_pool.h"
#include "engine/memory_plan.h"
#include "engine/stream/stream_options.h"
#include "kernels/isa.h"
#include "model/model.h"
#include "os/thread_pool.h"
#include "tensor/dtype.h"

namespace thermocline::engine {

inline constexpr int64_t kDefaultContextMax = 4096;

// Of a device's free memory, left to others: its driver, the desktop.
inline constexpr uint64_t kVramMargin = uint64_t{512} << 20;

struct SessionOptions {
  int64_t context = 0;  // positions; 0: the model's, at most 4096
  int num_threads = 0;  // 0: physical cores, or fewer by a quota
  // Those of MakeThreads, for runtimes that run in turns: threads of their own
  // would be pinned to the same cores, where the one's spin while the other's
  // work. Counts instead of num_threads. Null: threads of its own.
  std::shared_ptr<os::ThreadPool> threads;
  DType k_type = DType::kF16;  // F32, F16, Q8_0
  DType v_type = DType::kF16;
  int64_t batch = 512;  // rows computed together, at most
  // How many sequences there is memory for, each of the whole context.
  int64_t num_sequences = 1;
  kernels::Isa isa = kernels::BestIsa();
  FfnMode ffn = FfnMode::kAuto;
  PredictorChoice predictor = PredictorChoice::kAuto;
  bool dense_prompts = false;  // EngineOptions::dense_prompts
  Budget budget;
  // Of records that stay in the file: StreamOptions'.
  std::string policy;
  bool deterministic = false;
  std::optional<uint64_t> moves_per_token;
  MakeResidencyPolicy make_policy = residency::MakePolicy;
  OpenRecordReader open_records;
  StorageMode storage = StorageMode::kCluster;
  std::optional<StreamUnit> unit;  // empty: the best, if there are several
  std::optional<ReadPlan> reads;
  std::shared_ptr<storage::ReadLog> read_log;
  FfnObserver observer;                       // EngineOptions::observer
  const std::atomic<bool>* cancel = nullptr;  // looked at between layers
  ProgressFn progress;                        // tokens of a long prompt
  compute::StageTimes* times = nullptr;       // EngineOptions::times
  compute::HostWork* work = nullptr;          // EngineOptions::work
  Timeline* timeline = nullptr;               // EngineOptions::timeline
  // Takes what fits budget.vram, or what is free there less kVramMargin, as
  // `placement` says; null: the host computes everything.
  std::shared_ptr<device::Device> device;
  PlacementRules placement;
  // Decides in the place of PlanPlacement, if it is there.
  std::function<Result<Placement>(const PlacementRequest& request)> place;
  DeviceLoss on_device_loss = DeviceLoss::kFail;
  PromptDeviceOptions prompts;  // EngineOptions::prompts
};

// What the options' zeros stand for. kInvalidArgument: more threads than there
// can be.
int64_t ContextOf(const model::Config& config, const SessionOptions& options);
Result<int> NumThreadsOf(const SessionOptions& options);

// What several runtimes may have as their `threads`: as many as the options
// say. kInvalidArgument, kIo as of Runtime::Create.
Result<std::shared_ptr<os::ThreadPool>> MakeThreads(
    const SessionOptions& options);

// The weights, as far as memory is concerned.
struct WeightMemory {
  uint64_t num_bytes = 0;     // of the file's tensors, but for those left
  uint64_t bundle_bytes = 0;  // model::Model::num_bundle_bytes()
  bool are_held = false;      // read or locked, not mapped
  // What stays in the file: slots take the room that is left.
  std::optional<LeftWeights> left;

  static WeightMemory Of(const model::Model& model);
};

// Options made definite.
struct RuntimePlan {
  EngineOptions engine;
  int num_threads = 1;
  KvLayout kv = {};
  uint64_t num_kv_pages = 0;
  MemoryPlan memory;
};

// kInvalidArgument when the options do not fit the model (engine_plan.h, a KV
// type that head widths do not divide into, num_sequences < 1, threads that a
// pool refuses); kResourceExhausted when a product overflows. The budget is not
// checked, but slots for records that are left in the file take what it leaves,
// and at least what they need; PlanArena's errors then.
Result<RuntimePlan> PlanRuntime(const model::Config& config,
                                const SessionOptions& options,
                                const WeightMemory& weights = {});

// With what of the model lies on options.device. Besides: PlanPlacement's
// errors; kResourceExhausted, more VRAM than is free.
Result<RuntimePlan> PlanRuntime(const model::Model& model,
                                const SessionOptions& options);

// Its memory alone.
Result<MemoryPlan> PlanMemory(const model::Config& config,
                              const SessionOptions& options,
                              const WeightMemory& weights = {});

// Bytes of the KV cache that a token at `position` reads.
uint64_t KvBytesPerToken(const model::Config& config,
                         const SessionOptions& options, int64_t position);

// Threads  one caller at a time.
class Runtime {
 public:
  // Besides PlanRuntime's errors, PlanPlacement's and Engine::Create's:
  // kResourceExhausted, more VRAM than is free; CheckMemory's, against
  // the machine's RAM, before anything is allocated; kIo when there are no more
  // threads.
  static Result<std::unique_ptr<Runtime>> Create(
      std::shared_ptr<const model::Model> model, const SessionOptions& options);

  const RuntimePlan& plan() const { return plan_; }
  os::ThreadPool& pool() const { return *pool_; }
  KvPool& kv() const { return *kv_; }
  Engine& engine() const { return *engine_; }

  // Of the whole context; does not outlive the runtime.
  KvSequence NewSequence() const {
    return KvSequence(kv_.get(), plan_.engine.context);
  }

 private:
  Runtime(RuntimePlan plan, std::shared_ptr<os::ThreadPool> pool,
          std::unique_ptr<KvPool> kv, std::unique_ptr<Engine> engine);

  RuntimePlan plan_;
  std::shared_ptr<os::ThreadPool> pool_;
  std::unique_ptr<KvPool> kv_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_RUNTIME_H_
