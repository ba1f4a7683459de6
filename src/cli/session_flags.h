// The flags by which every command that runs a model opens it.
#ifndef THERMOCLINE_CLI_SESSION_FLAGS_H_
#define THERMOCLINE_CLI_SESSION_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/device_flags.h"
#include "cli/prefill_device_flags.h"
#include "cli/session_timeline.h"
#include "cli/terminal.h"
#include "engine/session.h"
#include "model/model.h"

namespace thermocline::cli {

struct ModelFlags {
  std::string path;
  bool check_tensors = false;
  model::ConfigOverrides overrides;
  std::optional<std::string> split_path;
  gguf::WeightResidency hold;
  bool bundle_at_load = false;
};

struct SessionFlags {
  int64_t num_threads = 0;
  std::optional<int64_t> context;
  int64_t batch = engine::SessionOptions().batch;
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
  kernels::Isa isa = kernels::BestIsa();
  engine::FfnMode ffn = engine::FfnMode::kAuto;
  engine::PredictorChoice predictor = engine::PredictorChoice::kAuto;
  bool dense_prefill = false;   // else every position as `ffn` says
  std::optional<uint64_t> ram;  // bytes; absent: what the machine has
  std::vector<uint64_t> rams;   // several, in the place of `ram`
  bool takes_rams = false;      // whether the command compares budgets
  std::string policy;           // SessionOptions::policy
  bool deterministic = false;   // SessionOptions::deterministic
  std::optional<engine::StreamUnit> unit;  // likewise
  bool unit_is_planned = false;            // `unit` comes from a plan
  // Never empty; sessions have the first. Several where a command runs one
  // after the other, which says so before AddEngineFlags.
  std::vector<engine::StorageMode> storage = {engine::StorageMode::kCluster};
  bool takes_storage_modes = false;
  DeviceFlags device;
  PrefillDeviceFlags prefill_device;
  std::shared_ptr<SessionTimeline> timeline;  // null: not asked for
};

// -m, --no-mmap, --mlock, --bundle-at-load, --check-tensors, --ffn-act,
// --ffn-threshold, --split.
void AddModelFlags(CLI::App& app, ModelFlags& flags);

// The files that opening the model reads, its split file too, and those that
// the device's flags name: no output may be one of them.
std::vector<std::string> InputFilesOf(const ModelFlags& flags,
                                      const DeviceFlags& device);

// Whether the mode may ask a predictor: fast does, and auto may become it.
bool AsksPredictor(engine::FfnMode mode);

// A usage error if --sparse-threshold is given and none of `modes`, in which
// the model will run, asks the file's predictors for scores.
void CheckScoresAreUsed(const ModelFlags& flags,
                        engine::PredictorChoice predictor,
                        const std::vector<engine::FfnMode>& modes);

// A mode by its name in --ffn. kInvalidArgument lists the names.
Result<engine::FfnMode> ParseMode(std::string_view name);

// -t as one number.
void AddThreadsFlag(CLI::App& app, SessionFlags& flags);

// -c; `fallback` says in the help what holds without it.
void AddContextFlag(CLI::App& app, SessionFlags& flags,
                    const std::string& fallback);

// --isa.
void AddIsaFlag(CLI::App& app, kernels::Isa& isa);

// --ram.
void AddRamFlag(CLI::App& app, SessionFlags& flags);

// -t, -c, --isa and those of device_flags.h: of sessions that look at all
// neurons. `fallback` as AddContextFlag's.
void AddObservedSessionFlags(CLI::App& app, SessionFlags& flags,
                             const std::string& fallback);

// -b, -ctk, -ctv, --isa, --ffn, --predictor, --ram, --balance, --deterministic,
// --unit, --storage, --sparse-threshold, and those of device_flags.h. The help
// shows the defaults that `flags` has now.
void AddEngineFlags(CLI::App& app, ModelFlags& model, SessionFlags& flags);

// --timeline; the command's action goes through WithTimeline.
inline void AddTimelineFlag(CLI::App& app, SessionFlags& flags) {
  AddTimelineFlag(app, flags.timeline);
}

// --prefill, for commands that measure or use speed: dense is the default then.
void AddPrefillFlag(CLI::App& app, SessionFlags& flags);

// What the flags ask for of the host alone, and room for graphs that compute
// prompts.
engine::SessionOptions OptionsOnHost(const SessionFlags& flags,
                                     const model::Config& config);

// What the flags ask for, with the program's cancel flag, and the devices
// opened. -c 0 is the model's whole context, as in llama.cpp. OpenDevice's
// errors.
Result<engine::SessionOptions> MakeSessionOptions(const SessionFlags& flags,
                                                  const model::Config& config,
                                                  ProgressLine& progress);

// The tokenizer of a model that must have one: kUnsupported otherwise.
Result<const text::Tokenizer*> RequireTokenizer(const model::Model& model);

// "dense, avx512-vnni, 2 threads, context 256, KV f16 6.00 MiB, weights
// mapped"; in the fast mode with whose predictors: "fast (PowerInfer
// predictors, threshold 0), ..."; with a dense prefill, ", prompts dense"; of
// what 'thermocline synth' made, ", synthetic model" at the end.
std::string DescribeMode(const engine::Session& session,
                         const engine::SessionOptions& options);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_SESSION_FLAGS_H_
