#include "cli/session_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/units.h"
#include "cli/flags.h"
#include "cli/held_weights.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/plan_cache.h"
#include "cli/planned_storage.h"
#include "cli/signals.h"
#include "cli/stream_flags.h"
#include "model/prepared_names.h"
#include "os/thread_pool.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMaxContext = int64_t{1} << 40;
constexpr int64_t kMaxBatch = 1 << 16;
const std::vector<DType> kKvTypes = {DType::kF32, DType::kF16, DType::kQ8_0};

Status StoreIsa(const std::string& text, kernels::Isa& isa) {
  const std::optional<kernels::Isa> parsed = kernels::ParseIsa(text);
  const std::vector<kernels::Isa> supported = kernels::SupportedIsas();
  if (parsed.has_value() && std::find(supported.begin(), supported.end(),
                                      *parsed) != supported.end()) {
    isa = *parsed;
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument, "'{}' is {}; choose from {}",
              Escape(text),
              parsed.has_value() ? "not for this CPU or not in this build"
                                 : "not known",
              NamesOf(supported));
}

Status StoreRam(const std::string& text, SessionFlags& flags) {
  TC_ASSIGN_OR_RETURN(const std::vector<uint64_t> sizes, ParseSizes(text));
  flags.ram.reset();
  flags.rams.clear();
  if (sizes.size() == 1) {
    flags.ram = sizes.front();
    return {};
  }
  if (flags.takes_rams) {
    flags.rams = sizes;
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              "one budget at a time; `bench` compares several");
}

std::string DescribePredictor(const engine::Session& session) {
  if (session.predictor() == engine::PredictorChoice::kTrainingFree) {
    return session.memory().host.signs == 0
               ? "training-free predictors"
               : fmt::format("signs of the weights, {}",
                             FormatBytes(session.memory().host.signs));
  }
  const model::PredictorConfig& predictor = session.model().config().predictor;
  const std::string_view name = NameOf(predictor.kind);
  if (predictor.is_mask) {
    return fmt::format("{} predictors, threshold {}", name,
                       predictor.threshold);
  }
  return fmt::format("{} predictors{}", name,
                     predictor.lookahead > 0 ? " of the next layer" : "");
}

std::string DescribeFfn(const engine::Session& session,
                        const engine::SessionOptions& options) {
  std::string text(engine::NameOf(session.ffn()));
  if (session.ffn() == engine::FfnMode::kDense) return text;
  const model::NeuronOrder* order = session.model().neuron_order();
  std::vector<std::string> details;
  if (session.ffn() == engine::FfnMode::kFast) {
    details.push_back(DescribePredictor(session));
  }
  if (order != nullptr) {
    details.push_back(fmt::format("groups of {}", order->group_size));
  }
  if (!details.empty()) text += fmt::format(" ({})", fmt::join(details, ", "));
  if (options.dense_prompts) text += ", prompts dense";
  return text;
}

// ", on cuda0: attention of 32 of 32 layers, 41 % of the neurons, head; 7.91
// GiB of 8.00 GiB".
std::string DescribeDevice(const engine::Session& session,
                           const engine::SessionOptions& options) {
  if (options.device == nullptr) return "";
  const Result<device::DeviceInfo> info = options.device->Info();
  return fmt::format(
      ", on {}: {}; {}{}", info ? info->id : "a lost device",
      engine::Describe(session.placement(), session.model().config()),
      FormatBytes(session.memory().device.total()),
      options.budget.vram
          ? fmt::format(" of {}", FormatBytes(*options.budget.vram))
          : "");
}

}  // namespace

engine::SessionOptions OptionsOnHost(const SessionFlags& flags,
                                     const model::Config& config) {
  engine::SessionOptions options;
  if (flags.context.has_value()) {
    options.context =
        *flags.context == 0 ? config.context_length : *flags.context;
  }
  options.num_threads = static_cast<int>(flags.num_threads);
  options.k_type = flags.k_type;
  options.v_type = flags.v_type;
  options.batch = flags.batch;
  options.isa = flags.isa;
  options.ffn = flags.ffn;
  options.predictor = flags.predictor;
  options.dense_prompts = flags.dense_prefill;
  options.prompts = PromptOptionsOf(flags.prefill_device);
  options.budget.ram = flags.ram;
  options.policy = flags.policy;
  options.deterministic = flags.deterministic;
  // A plan's unit is a choice of mixtures alone; what else a model has is
  // compared with the plan (CheckStoragePlanFor).
  const bool may_choose =
      engine::UnitOf(config) == engine::StreamUnit::kExperts;
  if (!flags.unit_is_planned || may_choose) options.unit = flags.unit;
  options.storage = flags.storage.front();
  options.budget.holds_ram = options.storage != engine::StorageMode::kMmap;
  return options;
}

std::vector<std::string> InputFilesOf(const ModelFlags& flags,
                                      const DeviceFlags& device) {
  std::vector<std::string> paths;
  if (!flags.path.empty()) paths = ModelFiles(flags.path);
  for (const auto& path : {flags.split_path, device.machine, device.plan_path,
                           device.storage_plan_path, device.counts_path}) {
    if (path.has_value()) paths.push_back(*path);
  }
  return paths;
}

bool AsksPredictor(engine::FfnMode mode) {
  return mode == engine::FfnMode::kFast || mode == engine::FfnMode::kAuto;
}

void CheckScoresAreUsed(const ModelFlags& flags,
                        engine::PredictorChoice predictor,
                        const std::vector<engine::FfnMode>& modes) {
  if (!flags.overrides.predictor_threshold.has_value()) return;
  const bool is_the_files = predictor == engine::PredictorChoice::kAuto ||
                            predictor == engine::PredictorChoice::kTrained;
  if (is_the_files && std::ranges::any_of(modes, AsksPredictor)) return;
  throw CLI::ValidationError(
      "--sparse-threshold",
      "has no effect: it is for scores of the file's own predictors, which "
      "--ffn fast asks");
}

Result<engine::FfnMode> ParseMode(std::string_view name) {
  const auto mode = engine::ParseFfnMode(name);
  if (mode.has_value()) return *mode;
  return NotOneOf(name, NamesOf(engine::kFfnModes));
}

void AddModelFlags(CLI::App& app, ModelFlags& flags) {
  AddRequiredPath(app, "-m,--model", flags.path, "FILE",
                  "GGUF model; of a split one, the first file");
  app.add_flag("--no-mmap", flags.hold.read,
               "Read the weights into memory instead of mapping the file");
  app.add_flag("--mlock", flags.hold.lock, "Lock the weights in RAM");
  app.add_flag("--bundle-at-load", flags.bundle_at_load,
               "Lay the neurons of a plain file out as records, in memory");
  app.add_flag("--check-tensors", flags.check_tensors,
               "Scan all weights for NaN and infinity first");
  AddParsed(app, "--ffn-act", "NAME",
            "FFN activation instead of the model's: " + ListActivations(),
            [&flags](const std::string& text) -> Status {
              flags.overrides.ffn_activation = ParseActivation(text);
              if (flags.overrides.ffn_activation.has_value()) return {};
              return NotOneOf(text, ListActivations());
            });
  AddParsed(app, "--ffn-threshold", "X", "Threshold of fatrelu",
            [&flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(const double value,
                                  ParseFloat(text, -1e30, 1e30));
              flags.overrides.ffn_threshold = static_cast<float>(value);
              return {};
            });
  AddPath(app, "--split", flags.split_path, "FILE",
          "Split file of the model: KAIROX's order of neurons, or "
          "PowerInfer's .gpuidx");
}

void AddThreadsFlag(CLI::App& app, SessionFlags& flags) {
  AddInt(app, "-t,--threads", flags.num_threads, 0, os::ThreadPool::kMaxThreads,
         "Threads; 0: one per physical core (default 0)");
}

void AddContextFlag(CLI::App& app, SessionFlags& flags,
                    const std::string& fallback) {
  AddInt(app, "-c,--ctx-size", flags.context, 0, kMaxContext,
         "Positions of the context; 0: the model's (default " + fallback + ")");
}

void AddIsaFlag(CLI::App& app, kernels::Isa& isa) {
  AddParsed(
      app, "--isa", "NAME",
      fmt::format("Instruction set of the kernels; this CPU has {} "
                  "(default {})",
                  NamesOf(kernels::SupportedIsas()), kernels::NameOf(isa)),
      [&isa](const std::string& text) { return StoreIsa(text, isa); });
}

void AddObservedSessionFlags(CLI::App& app, SessionFlags& flags,
                             const std::string& fallback) {
  AddThreadsFlag(app, flags);
  AddContextFlag(app, flags, fallback);
  AddIsaFlag(app, flags.isa);
  AddDeviceFlags(app, flags.device);
}

void AddRamFlag(CLI::App& app, SessionFlags& flags) {
  AddParsed(
      app, "--ram", flags.takes_rams ? "SIZE,..." : "SIZE",
      "Memory for all of it, weights too, mapped or not (4GiB); of a "
      "model that is larger a part stays in its file and is read as it "
      "is needed (default: the machine's, without mapped weights)" +
          std::string(
              flags.takes_rams ? "; several are compared, a row for each" : ""),
      [&flags](const std::string& text) { return StoreRam(text, flags); });
}

void AddEngineFlags(CLI::App& app, ModelFlags& model, SessionFlags& flags) {
  AddInt(app, "-b,--batch-size,--ub,--ubatch-size", flags.batch, 1, kMaxBatch,
         fmt::format("Tokens computed together in prefill (default {})",
                     flags.batch));
  AddDType(app, "--ctk,--cache-type-k", flags.k_type, kKvTypes,
           fmt::format("Keys in the KV cache: f32, f16, q8_0 (default {})",
                       LowerName(flags.k_type)));
  AddDType(app, "--ctv,--cache-type-v", flags.v_type, kKvTypes,
           fmt::format("Values in the KV cache: f32, f16, q8_0 (default {})",
                       LowerName(flags.v_type)));
  AddIsaFlag(app, flags.isa);
  AddParsed(app, "--ffn", "MODE",
            "Neurons that are computed: dense (all), exact (all gates, then "
            "those that these let through), fast (likewise, of those that a "
            "predictor chooses), threshold (those whose gate is open far "
            "enough), auto (fast if the file has predictors, exact if a ReLU "
            "model's neurons are records, else dense; default)",
            [&flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags.ffn, ParseMode(text));
              return {};
            });
  AddParsed(
      app, "--predictor", "NAME",
      "Whose choice --ffn fast takes: trained (the file's), training-free "
      "(signs of the weights), none (exact), auto (the file's; default)",
      [&flags](const std::string& text) -> Status {
        const auto choice = engine::ParsePredictorChoice(text);
        if (!choice) {
          return NotOneOf(text, NamesOf(engine::kPredictorChoices));
        }
        flags.predictor = *choice;
        return {};
      });
  AddRamFlag(app, flags);
  AddBalanceFlags(app, flags.policy, flags.deterministic);
  AddUnitFlag(app, flags.unit);
  AddStorageFlag(app, flags.storage, flags.takes_storage_modes);
  AddDeviceFlags(app, flags.device);
  AddParsed(app, "--sparse-threshold", "X",
            "Score from which predictors take a neuron, instead of the file's",
            [&model](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(const double value,
                                  ParseFloat(text, -1e30, 1e30));
              model.overrides.predictor_threshold = static_cast<float>(value);
              return {};
            });
}

void AddPrefillFlag(CLI::App& app, SessionFlags& flags) {
  flags.dense_prefill = true;
  AddParsed(app, "--prefill", "MODE",
            "Prompts: dense (all neurons; default), same (as --ffn says)",
            [&flags](const std::string& text) -> Status {
              if (text != "dense" && text != "same") {
                return NotOneOf(text, "dense, same");
              }
              flags.dense_prefill = text == "dense";
              return {};
            });
}

Result<engine::SessionOptions> MakeSessionOptions(const SessionFlags& flags,
                                                  const model::Config& config,
                                                  ProgressLine& progress) {
  TC_ASSIGN_OR_RETURN(const SessionFlags planned, WithStoragePlan(flags));
  TC_RETURN_IF_ERROR(KeepToPlannedCpus(flags));
  engine::SessionOptions options = OptionsOnHost(planned, config);
  Timeline* const timeline =
      flags.timeline != nullptr ? flags.timeline->timeline() : nullptr;
  TC_ASSIGN_OR_RETURN(options.device, OpenDevice(flags.device, timeline));
  options.budget.vram = flags.device.vram();
  options.placement = flags.device.rules;
  TC_RETURN_IF_ERROR(PlaceFor(flags.device, options));
  options.on_device_loss = flags.device.on_loss;
  TC_RETURN_IF_ERROR(OpenPrefillDevices(flags.prefill_device, options.prompts));
  options.cancel = CancelFlag();
  options.progress = progress.callback();
  if (flags.timeline != nullptr) flags.timeline->AddTo(options);
  return options;
}

Result<const text::Tokenizer*> RequireTokenizer(const model::Model& model) {
  if (model.tokenizer() != nullptr) return model.tokenizer();
  return Fail(ErrorCode::kUnsupported,
              "{}: has no vocabulary, so text cannot be read or written; "
              "'thermocline eval logits --tokens' runs it on token ids",
              model.file().path());
}

std::string DescribeMode(const engine::Session& session,
                         const engine::SessionOptions& options) {
  const std::string k_name = LowerName(options.k_type);
  const std::string v_name = LowerName(options.v_type);
  const gguf::File& file = session.model().file();
  const bool is_synthetic = file.Find(model::prepared::kSynthetic) != nullptr;
  const std::string budget = DescribeBudget(session, options) +
                             DescribeStream(session) +
                             DescribeDevice(session, options);
  return fmt::format(
      "{}, {}, {}, context {}, KV {} {}, weights {}{}{}",
      DescribeFfn(session, options), kernels::NameOf(session.isa()),
      Plural(session.num_threads(), "thread"), session.context(),
      k_name == v_name ? k_name : k_name + "/" + v_name,
      FormatBytes(session.memory().host.kv), DescribeHeld(file.held()), budget,
      is_synthetic ? ", synthetic model" : "");
}

}  // namespace thermocline::cli
