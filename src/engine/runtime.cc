#include "engine/runtime.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/math.h"
#include "base/remedy.h"
#include "base/units.h"
#include "engine/device/planner.h"
#include "engine/engine_plan.h"
#include "engine/forward/opened_rows.h"
#include "engine/forward/prompt_chooser.h"
#include "engine/left_tensors.h"
#include "engine/stream/expert_stream.h"
#include "engine/stream/layer_stream.h"
#include "engine/stream/streamed_store.h"
#include "engine/stream/unit_choice.h"
#include "kernels/kv_group.h"
#include "npu/static_model.h"
#include "os/memory.h"
#include "os/topology.h"

namespace thermocline::engine {
namespace {

EngineOptions EngineOptionsOf(const model::Config& config,
                              const SessionOptions& options) {
  EngineOptions engine = {.context = ContextOf(config, options),
                          .max_rows = options.batch,
                          .isa = options.isa,
                          .ffn = options.ffn,
                          .predictor = options.predictor,
                          .dense_prompts = options.dense_prompts,
                          .observer = options.observer,
                          .times = options.times,
                          .work = options.work,
                          .timeline = options.timeline};
  // More rows than positions there can never be.
  const std::optional<uint64_t> num_positions =
      CheckedMul(static_cast<uint64_t>(std::max<int64_t>(engine.context, 1)),
                 static_cast<uint64_t>(options.num_sequences));
  if (num_positions && std::cmp_less(*num_positions, engine.max_rows)) {
    engine.max_rows = static_cast<int64_t>(*num_positions);
  }
  return engine;
}

// YaRN is trained for what it stretches the original length to; files often
// keep that original length as the model's.
int64_t LongestTrained(const model::Config& config) {
  double longest = static_cast<double>(config.context_length);
  for (const model::RopeConfig& rope : config.ropes) {
    if (rope.scaling != model::RopeScaling::kYarn) continue;
    longest = std::max(
        longest, rope.factor * static_cast<double>(rope.original_context));
  }
  return static_cast<int64_t>(std::min(longest, 1e15));
}

void WarnOf(const model::Model& model, const RuntimePlan& plan, FfnMode mode) {
  if (model.neuron_order() != nullptr && mode == FfnMode::kDense) {
    LogInfo("the split's order of neurons changes nothing in dense FFNs");
  }
  const std::optional<StreamOptions>& stream = plan.engine.stream;
  if (stream && stream->unit == StreamUnit::kLayers) {
    TellOfPolicy(stream->policy);
  }
  const int64_t trained = LongestTrained(model.config());
  if (trained > 0 && plan.engine.context > trained) {
    LogWarning(
        "a context of {} positions is beyond the {} that this model was "
        "trained with: expect nonsense past them",
        plan.engine.context, trained);
  }
}

// Whether the policy of records that stay in the file hears whom a device's
// prompts use.
Result<bool> IsLearnedFrom(const model::Config& config,
                           const SessionOptions& options,
                           const WeightMemory& weights,
                           const PromptDeviceOptions& prompts) {
  TC_ASSIGN_OR_RETURN(const FfnChoice choice,
                      ChooseFfn(config, options.ffn, options.predictor));
  return weights.left && weights.left->unit == StreamUnit::kRecords &&
         choice.mode != FfnMode::kDense && prompts.graphs.weights_are_inputs;
}

// What the graphs of prompts are, and their memory.
Status PlanPrompts(const model::Config& config, const SessionOptions& options,
                   const WeightMemory& weights, RuntimePlan& plan) {
  if (!options.prompts.is_wanted) return {};
  PromptDeviceOptions& prompts = plan.engine.prompts;
  prompts = options.prompts;
  prompts.graphs.context = plan.engine.context;
  prompts.graphs.weights_are_inputs = prompts.weights_are_inputs.value_or(
      weights.left.has_value() || options.budget.ram.has_value());
  prompts.graphs.unpack_threads = plan.num_threads;
  prompts.graphs.compile.num_threads = plan.num_threads;
  prompts.graphs.compile.cancel = options.cancel;
  prompts.graphs.progress = options.progress;
  TC_ASSIGN_OR_RETURN(prompts.graphs.shows_opened,
                      IsLearnedFrom(config, options, weights, prompts));
  TC_ASSIGN_OR_RETURN(uint64_t num_bytes,
                      npu::StaticBytes(config, prompts.graphs));
  if (prompts.graphs.shows_opened) {
    num_bytes = CheckedAdd(num_bytes, OpenedRows::NumBytes(config))
                    .value_or(UINT64_MAX);
  }
  if (prompts.check != PromptCheck::kOff) {
    TC_ASSIGN_OR_RETURN(const uint64_t check_bytes, PromptCheckBytes(config));
    num_bytes = CheckedAdd(num_bytes, check_bytes).value_or(UINT64_MAX);
  }
  plan.memory.host.graphs = num_bytes;
  return {};
}

// What is kept of a neuron whose record may be in the file: its place, home and
// state (streamed_store.h), who is resident (live_policy.h), and what a policy
// knows of it.
constexpr uint64_t kStreamTableBytes = 4 + 4 + 1 + 1 + 4 + 40;
// And of one of the widest layer or expert, for the run at hand.
constexpr uint64_t kRunTableBytes = 3 * 4 + 2 * 4 + 1;
// In each room: its reads.
constexpr uint64_t kRoomTableBytes = 3 * sizeof(ReadRange);
// A store of an expert, without what it has for each neuron.
constexpr uint64_t kExpertStoreBytes = 1024;

uint64_t StreamTableBytes(const model::Config& config) {
  uint64_t num_bytes =
      ChoiceBytes(config) + NumExperts(config) * kExpertStoreBytes +
      model::MaxFfnWidth(config) *
          (kRunTableBytes + NumRooms(config) * kRoomTableBytes);
  for (const model::LayerSpec& layer : config.layers) {
    num_bytes += NumNeurons(layer.ffn) * kStreamTableBytes;
    if (layer.ffn.num_experts > 0) num_bytes += NumNeurons(layer.ffn) / 8;
  }
  return num_bytes;
}

Result<UnitsThatMay> UnitsOf(const model::Config& config,
                             const SessionOptions& options, StreamUnit left,
                             FfnMode ffn) {
  return UnitsFor(config, {.left = left,
                           .ffn = ffn,
                           .mode = options.storage,
                           .asked = options.unit});
}

// Slots for what fits in `room`, of each unit that may be; of two of which one
// is too large for it, the smaller one's.
Status PlanSlots(const model::Config& config, const LeftWeights& left,
                 uint64_t room, UnitsThatMay units, StreamOptions& stream) {
  if (units.layers) {
    stream.unit = StreamUnit::kLayers;
    stream.blocks = PlanLayerSlots(left, room);
    return {};
  }
  if (units.experts) {
    stream.unit = StreamUnit::kExperts;
    stream.blocks = PlanExpertSlots(config, left.block_bytes, room);
  }
  if (!units.records) return {};
  TC_ASSIGN_OR_RETURN(stream.arena, PlanArena(config, room));
  const uint64_t by_records = stream.arena.num_bytes();
  const uint64_t by_experts = stream.blocks.num_bytes();
  const bool fits = std::max(by_records, by_experts) <= room;
  if (units.experts && !fits && by_experts <= by_records) {
    stream.arena = {};
    return {};
  }
  stream.unit = StreamUnit::kRecords;
  stream.or_experts = units.experts && fits;
  if (!stream.or_experts) stream.blocks = {};
  return {};
}

// Gives slots what the budget leaves.
Status PlanStream(const model::Config& config, const SessionOptions& options,
                  const LeftWeights& left, RuntimePlan& plan) {
  TC_ASSIGN_OR_RETURN(const FfnChoice choice, ChooseFfn(config, plan.engine.ffn,
                                                        plan.engine.predictor));
  TC_ASSIGN_OR_RETURN(const UnitsThatMay units,
                      UnitsOf(config, options, left.unit, choice.mode));
  plan.memory.host.scratch +=
      std::max(units.records ? StreamTableBytes(config) : 0,
               units.experts ? ExpertTableBytes(config) : 0);
  const uint64_t ram = options.budget.ram.value_or(UINT64_MAX);
  const uint64_t room =
      RoomForSlots(ram - std::min(ram, plan.memory.host.total()), config);
  StreamOptions stream = {.has_candidates = choice.mode == FfnMode::kFast,
                          .policy = options.policy,
                          .deterministic = options.deterministic,
                          .moves_per_token = options.moves_per_token,
                          .make_policy = options.make_policy,
                          .open = options.open_records,
                          .mode = options.storage,
                          .reads = options.reads,
                          .log = options.read_log};
  TC_RETURN_IF_ERROR(PlanSlots(config, left, room, units, stream));
  plan.memory.host.slots =
      std::max(stream.arena.num_bytes(), stream.blocks.num_bytes());
  plan.engine.stream = std::move(stream);
  return {};
}

Result<uint64_t> VramOf(const device::Device& device,
                        const std::optional<uint64_t>& budget) {
  TC_ASSIGN_OR_RETURN(const device::DeviceInfo info, device.Info());
  if (!budget) return info.free_bytes - std::min(info.free_bytes, kVramMargin);
  if (*budget <= info.free_bytes) return *budget;
  return Fail(ErrorCode::kResourceExhausted,
              "a budget of {} of VRAM: {} has {}, of which {} are free",
              FormatBytes(*budget), info.name, FormatBytes(info.total_bytes),
              FormatBytes(info.free_bytes));
}

Status PlaceOnDevice(const model::Model& model, const SessionOptions& options,
                     RuntimePlan& plan) {
  TC_ASSIGN_OR_RETURN(
      const FfnChoice choice,
      ChooseFfn(model.config(), plan.engine.ffn, plan.engine.predictor));
  TC_ASSIGN_OR_RETURN(const uint64_t vram,
                      VramOf(*options.device, options.budget.vram));
  const PlacementRequest request = {.model = &model,
                                    .choice = choice,
                                    .layout = &options.device->layout(),
                                    .context = plan.engine.context,
                                    .num_kv_pages = plan.num_kv_pages,
                                    .vram = vram,
                                    .rules = options.placement};
  TC_ASSIGN_OR_RETURN(Placement placement, options.place
                                               ? options.place(request)
                                               : PlanPlacement(request));
  for (const std::string& part : placement.left_out) {
    LogWarning("stays on the host: {}", part);
  }
  plan.memory.device = {.weights = placement.weight_bytes,
                        .slots = placement.record_bytes,
                        .kv = placement.kv_bytes,
                        .scratch = placement.lane_bytes};
  plan.memory.host.scratch += placement.pinned_bytes;
  plan.memory.host.linked = placement.linked_bytes;
  plan.engine.device = options.device;
  plan.engine.placement = std::move(placement);
  plan.engine.on_device_loss = options.on_device_loss;
  return {};
}

}  // namespace

int64_t ContextOf(const model::Config& config, const SessionOptions& options) {
  if (options.context != 0) return options.context;
  if (config.context_length <= 0) return kDefaultContextMax;
  return std::min(config.context_length, kDefaultContextMax);
}

Result<int> NumThreadsOf(const SessionOptions& options) {
  if (options.threads != nullptr) return options.threads->num_threads();
  if (options.num_threads < 0 ||
      options.num_threads > os::ThreadPool::kMaxThreads) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kThreads},
                "{} threads: there are 1 to {}, or 0 for one per physical "
                "core",
                options.num_threads, os::ThreadPool::kMaxThreads);
  }
  if (options.num_threads > 0) return options.num_threads;
  return std::clamp(os::ReadTopology().num_default_threads(), 1,
                    os::ThreadPool::kMaxThreads);
}

Result<std::shared_ptr<os::ThreadPool>> MakeThreads(
    const SessionOptions& options) {
  if (options.threads != nullptr) return options.threads;
  TC_ASSIGN_OR_RETURN(const int num_threads, NumThreadsOf(options));
  return os::ThreadPool::Create({.num_threads = num_threads});
}

WeightMemory WeightMemory::Of(const model::Model& model) {
  const gguf::File& file = model.file();
  WeightMemory memory = {
      .bundle_bytes = model.num_bundle_bytes(),
      .are_held = file.num_held_bytes() > 0,
      .left = LeftOf(file, model.config(), file.held().left_out)};
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    memory.num_bytes += tensor.num_bytes;
  }
  if (memory.left) memory.num_bytes = file.num_held_bytes();
  return memory;
}

Result<RuntimePlan> PlanRuntime(const model::Config& config,
                                const SessionOptions& options,
                                const WeightMemory& weights) {
  if (options.num_sequences < 1) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kSequences},
                "{} sequences: there is at least one", options.num_sequences);
  }
  RuntimePlan plan;
  plan.engine = EngineOptionsOf(config, options);
  TC_ASSIGN_OR_RETURN(plan.num_threads, NumThreadsOf(options));
  TC_ASSIGN_OR_RETURN(const EnginePlan engine,
                      PlanEngine(config, plan.engine, plan.num_threads));
  TC_ASSIGN_OR_RETURN(
      plan.kv, PlanKvLayout(config, options.k_type, options.v_type,
                            kernels::KvOrderFor(options.isa, options.k_type,
                                                options.v_type)));
  plan.num_kv_pages = CheckedMul(KvPagesFor(plan.engine.context),
                                 static_cast<uint64_t>(options.num_sequences))
                          .value_or(UINT64_MAX);
  TierBytes& host = plan.memory.host;
  TC_ASSIGN_OR_RETURN(host.kv, KvBytes(plan.kv, plan.num_kv_pages));
  host.scratch = engine.scratch_bytes;
  host.signs = engine.sign_bytes;
  host.weights = weights.num_bytes;
  host.bundles = weights.bundle_bytes;
  plan.memory.holds_weights = weights.are_held;
  TC_RETURN_IF_ERROR(PlanPrompts(config, options, weights, plan));
  if (weights.left) {
    TC_RETURN_IF_ERROR(PlanStream(config, options, *weights.left, plan));
  }
  if (host.total() == UINT64_MAX) {
    return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kLessMemory},
                "a context of {} positions needs more memory than can be "
                "addressed",
                plan.engine.context);
  }
  return plan;
}

Result<RuntimePlan> PlanRuntime(const model::Model& model,
                                const SessionOptions& options) {
  TC_ASSIGN_OR_RETURN(RuntimePlan plan, PlanRuntime(model.config(), options,
                                                    WeightMemory::Of(model)));
  if (options.device != nullptr) {
    TC_RETURN_IF_ERROR(PlaceOnDevice(model, options, plan));
  }
  return plan;
}

Result<MemoryPlan> PlanMemory(const model::Config& config,
                              const SessionOptions& options,
                              const WeightMemory& weights) {
  TC_ASSIGN_OR_RETURN(const RuntimePlan plan,
                      PlanRuntime(config, options, weights));
  return plan.memory;
}

uint64_t KvBytesPerToken(const model::Config& config,
                         const SessionOptions& options, int64_t position) {
  const auto layout = PlanKvLayout(config, options.k_type, options.v_type);
  TC_CHECK(layout.has_value());
  return static_cast<uint64_t>(position + 1) * layout->position_bytes();
}

Runtime::Runtime(RuntimePlan plan, std::shared_ptr<os::ThreadPool> pool,
                 std::unique_ptr<KvPool> kv, std::unique_ptr<Engine> engine)
    : plan_(std::move(plan)),
      pool_(std::move(pool)),
      kv_(std::move(kv)),
      engine_(std::move(engine)) {}

Result<std::unique_ptr<Runtime>> Runtime::Create(
    std::shared_ptr<const model::Model> model, const SessionOptions& options) {
  TC_CHECK(model != nullptr);
  TC_ASSIGN_OR_RETURN(RuntimePlan plan, PlanRuntime(*model, options));
  const Status fits = CheckMemory(plan.memory, options.budget,
                                  os::ReadMemoryInfo().total_bytes);
  if (!fits.has_value()) return Annotate(model->file().path(), fits.error());
  TC_ASSIGN_OR_RETURN(auto kv, KvPool::Create(plan.kv, plan.num_kv_pages));
  TC_ASSIGN_OR_RETURN(auto pool, MakeThreads(options));
  TC_ASSIGN_OR_RETURN(auto engine,
                      Engine::Create(model, plan.engine, pool.get()));
  WarnOf(*model, plan, engine->ffn());
  return std::unique_ptr<Runtime>(new Runtime(
      std::move(plan), std::move(pool), std::move(kv), std::move(engine)));
}

}  // namespace thermocline::engine
