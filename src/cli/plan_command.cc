// `thermocline plan`: who starts where, before anything is loaded.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/like_model.h"
#include "cli/model_problem.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/plan_storage.h"
#include "cli/planned_placement.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "engine/runtime.h"

namespace thermocline::cli {
namespace {

struct PlanFlags {
  ModelFlags model;
  LikeFlags like;
  SessionFlags session;
  PlanStorageFlags storage;
  std::optional<planner::Method> method;
  std::optional<std::string> output_path;
  bool explain = false;
};

struct Planned {
  PlanMade made;
  planner::PlanFile file;
  engine::RuntimePlan runtime;
};

std::string Milliseconds(double seconds) {
  return fmt::format("{:.3f}", 1e3 * seconds);
}

std::string DescribeHost(engine::MemoryPlan memory) {
  memory.device = {};
  return fmt::format("{}: {}", FormatBytes(memory.host.total()),
                     engine::Describe(memory));
}

std::string DescribePlan(const Planned& planned, const model::Config& config) {
  const PlanMade& made = planned.made;
  const engine::RuntimePlan& plan = planned.runtime;
  const planner::NamedPlacement& named = made.named;
  std::string text = fmt::format(
      "plan      {} for {}: {}\n"
      "device    {} of {}: {} of weights, {} of records, {} of keys and "
      "values, {} of activations\n"
      "host      {}\n"
      "predicted {} ms a token, {:.2f} tokens/s: the device reads {}, {}the "
      "host {}\n",
      planner::InfoOf(named.method).name, planned.file.machine,
      engine::Describe(plan.engine.placement, config),
      FormatBytes(plan.memory.device.total()), FormatBytes(planned.file.budget),
      FormatBytes(plan.memory.device.weights),
      FormatBytes(plan.memory.device.slots), FormatBytes(plan.memory.device.kv),
      FormatBytes(plan.memory.device.scratch), DescribeHost(plan.memory),
      Milliseconds(named.seconds), made.cost.tokens_per_s(),
      FormatBytes(static_cast<uint64_t>(made.cost.traffic.device)),
      made.cost.traffic.up > 0.0
          ? fmt::format("{} over the link, ", FormatBytes(static_cast<uint64_t>(
                                                  made.cost.traffic.up)))
          : "",
      FormatBytes(static_cast<uint64_t>(made.cost.traffic.host)));
  text += fmt::format("solved in {} ms", Milliseconds(named.wall_seconds));
  if (named.bound_seconds && named.seconds > 0.0) {
    text += fmt::format(
        ", within {:.2f} % of the least time that any placement could take",
        100.0 * (named.seconds - *named.bound_seconds) / named.seconds);
  }
  return text + "\n";
}

// A line per layer.
std::string ExplainLayers(const PlanMade& made) {
  std::string text =
      "\n| layer | on the device | bytes there | a token reads: device, host | "
      "attention ms | predictor ms | FFN ms: device, host | of the FFN's bytes "
      "there |\n"
      "|---:|---|---:|---:|---:|---:|---:|---:|\n";
  for (size_t i = 0; i < made.cost.layers.size(); ++i) {
    const planner::LayerCost& cost = made.cost.layers[i];
    const planner::LayerPlace& place = made.named.placement.layers[i];
    std::string there;
    const auto add = [&](bool is_there, const std::string& what) {
      if (is_there) there += (there.empty() ? "" : ", ") + what;
    };
    add(place.attention, "attention");
    add(place.predictor, "predictor");
    add(place.matrices, "FFN");
    add(!place.neurons.empty(), Plural(place.neurons.size(), "neuron"));
    add(!place.experts.empty(), Plural(place.experts.size(), "expert"));
    planner::Traffic reads = cost.attention.traffic;
    reads += cost.predictor.traffic;
    reads += cost.ffn.traffic;
    text += fmt::format(
        "| {} | {} | {} | {}, {} | {} | {} | {}, {} | {:.1f} % |\n", i,
        there.empty() ? "-" : there, FormatBytes(cost.device_bytes),
        FormatBytes(static_cast<uint64_t>(reads.device)),
        FormatBytes(static_cast<uint64_t>(reads.host)),
        Milliseconds(cost.attention.seconds),
        Milliseconds(cost.predictor.seconds),
        Milliseconds(cost.ffn.device_seconds),
        Milliseconds(cost.ffn.host_seconds), 100.0 * cost.share_there);
  }
  return text;
}

// What the native plan of the same problem would take.
Result<std::string> CompareWithNative(const PlanMade& made) {
  TC_ASSIGN_OR_RETURN(
      const planner::NamedPlacement native,
      planner::PlaceByMethod(made.problem, planner::Method::kNative));
  return fmt::format(
      "split     {} ms a token; native would take {} ms, {:.2f} of it\n",
      Milliseconds(made.named.seconds), Milliseconds(native.seconds),
      native.seconds / made.named.seconds);
}

// Neurons or experts are chosen among, and nobody counted them.
bool LacksProfile(const Planned& planned, const model::Model& model,
                  bool has_counts) {
  const bool is_dense = planned.file.mode == NameOf(engine::FfnMode::kDense);
  const bool chooses = std::ranges::any_of(
      planned.made.problem.layers, [&](const planner::Layer& layer) {
        return !layer.experts.experts.empty() ||
               (layer.neurons.count() > 0 && !is_dense);
      });
  return chooses && !has_counts && !HasProfile(model);
}

Result<std::shared_ptr<const model::Model>> OpenWhatIsPlanned(
    const PlanFlags& flags, ProgressLine& progress) {
  if (!flags.like.shape) return OpenModel(flags.model, progress);
  return ModelLike(flags.like, flags.model.overrides, flags.model.split_path);
}

// By the split file if there is PowerInfer's, else by a method.
Result<Planned> SolveFor(const PlanFlags& flags, const model::Model& model,
                         ProgressLine& progress) {
  const bool by_split = model.hot_neurons() != nullptr;
  if (by_split && flags.method) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} and a solver both say which neurons lie on the device: "
                "leave one out",
                *flags.model.split_path);
  }
  TC_ASSIGN_OR_RETURN(const PlanInputs inputs,
                      PlanInputsOf(flags.session.device));
  TC_ASSIGN_OR_RETURN(
      engine::SessionOptions options,
      MakeSessionOptions(flags.session, model.config(), progress));
  if (!by_split) {
    UseModeOf(flags.method.value_or(planner::Method::kNative), options);
  }
  Planned planned;
  const PlaceFunction solve =
      by_split ? PlaceBySplit(inputs, &planned.made)
               : PlaceBy(flags.method.value_or(planner::Method::kNative),
                         inputs, &planned.made);
  options.place = [&](const engine::PlacementRequest& request) {
    auto placement = solve(request);
    if (placement) {
      planned.file = PlanFileOf(planned.made, request, inputs.machine.name);
    }
    return placement;
  };
  TC_ASSIGN_OR_RETURN(planned.runtime, engine::PlanRuntime(model, options));
  // What this machine has says nothing: plans are for others too.
  TC_RETURN_IF_ERROR(
      engine::CheckMemory(planned.runtime.memory, options.budget, UINT64_MAX));
  return planned;
}

Result<std::string> Report(const PlanFlags& flags, const Planned& planned,
                           const model::Model& model) {
  std::string text;
  if (flags.like.shape) text += "model     " + DescribeLike(model) + "\n";
  text += DescribePlan(planned, model.config());
  if (LacksProfile(planned, model,
                   flags.session.device.counts_path.has_value())) {
    text +=
        "profile   none in the file: all neurons, or experts, of a layer count "
        "as equally busy\n";
  }
  if (model.hot_neurons() != nullptr) {
    TC_ASSIGN_OR_RETURN(const std::string compared,
                        CompareWithNative(planned.made));
    text += compared;
  }
  if (flags.explain) text += ExplainLayers(planned.made);
  return text;
}

Status MakeStoragePlan(const PlanFlags& flags) {
  if (flags.like.shape && !flags.session.device.machine) {
    return Fail(ErrorCode::kInvalidArgument,
                "--like has no file, whose storage could be measured: say with "
                "--machine what it gives");
  }
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model, OpenWhatIsPlanned(flags, progress));
  return PlanStorageFor(flags.storage, *model,
                        InputFilesOf(flags.model, flags.session.device),
                        flags.session, flags.explain, flags.output_path);
}

Status MakePlan(const PlanFlags& flags) {
  if (PlansForStorage(flags.session)) return MakeStoragePlan(flags);
  if (!WantsDevice(flags.session.device)) {
    return Fail(ErrorCode::kInvalidArgument,
                "a plan is for a device: say which, or --vram; or for a model "
                "larger than memory: say --ram");
  }
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model, OpenWhatIsPlanned(flags, progress));
  TC_ASSIGN_OR_RETURN(const Planned planned, SolveFor(flags, *model, progress));
  TC_ASSIGN_OR_RETURN(const std::string text, Report(flags, planned, *model));
  if (!flags.output_path) return WriteStdout(text);
  TC_RETURN_IF_ERROR(CheckOutput(
      *flags.output_path, InputFilesOf(flags.model, flags.session.device)));
  TC_RETURN_IF_ERROR(planner::WritePlan(planned.file, *flags.output_path));
  return WriteReport(text, {*flags.output_path});
}

// Flags that do not go together.
void CheckPlanFlags(const CLI::App& app, PlanFlags& flags) {
  const bool has_model = app.get_option("--model")->count() > 0;
  if (has_model == flags.like.shape.has_value()) {
    throw CLI::ValidationError(
        has_model ? "--like is a model without weights: not with -m"
                  : "-m says which model, or --like what shape");
  }
  if (flags.session.device.plan_path ||
      flags.session.device.storage_plan_path) {
    throw CLI::ValidationError(
        "--plan is for commands that run a model; this one makes plans");
  }
  const bool wants_weights = flags.model.hold.any() ||
                             flags.model.bundle_at_load ||
                             flags.model.check_tensors;
  if (flags.like.shape && wants_weights) {
    throw CLI::ValidationError(
        "--no-mmap, --mlock, --bundle-at-load and --check-tensors are about "
        "weights, which --like has none of");
  }
  if (PlansForStorage(flags.session)) {
    if (flags.method) {
      throw CLI::ValidationError(
          "--solver", "places weights on a device; --ram alone has none");
    }
    return;
  }
  if (flags.storage.any()) {
    throw CLI::ValidationError(
        "--cpus, --threads-max, --min-speed, --trace and --save-machine are "
        "for --ram without a device");
  }
  DeviceFlags& device = flags.session.device;
  if (device.name.empty() && device.machine) device.name = "sim";
}

constexpr const char* kPlanFooter =
    "Nothing is loaded. Times are predictions for the middle of the context, "
    "by\nthe machine's rates (--machine; of a card measured first) and the "
    "model's profile.\n--ram without a device is for models larger than "
    "memory: which cores compute\nand read, and what streams from the file. "
    "Cores, memory and the file's storage are\nmeasured first.\n\n"
    "Examples:\n"
    "  thermocline plan -m model.gguf --vram 8GiB --explain -o plan.json\n"
    "  thermocline plan -m model.gguf --machine machines/rtx4090-ddr5.json "
    "--vram 8GiB --solver ilp\n"
    "  thermocline plan --like llama-13b --density 0.1 --skew 0.26 --machine "
    "machines/rtx4090-ddr5.json --vram 8GiB\n"
    "  thermocline plan -m model.gguf --ram 4GiB --min-speed 5 --explain";

}  // namespace

void AddPlanCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* app = parent.add_subcommand(
      "plan",
      "Decides what lies where, on a device or in memory, and says why");
  AddModelFlags(*app, flags->model);
  app->get_option("--model")->required(false);
  AddLikeFlags(*app, flags->like);
  AddParsed(*app, "--solver,--placement", "NAME",
            "How: native (default), ilp (PowerInfer's), frequency, "
            "dense-layers, sparse-layers, all-host, all-device, stream-dense, "
            "fetch-active",
            [flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags->method, planner::ParseMethod(text));
              return {};
            });
  app->add_flag("--explain", flags->explain,
                "Also per layer: what is where, and the times predicted");
  AddPath(*app, "-o,--output", flags->output_path, "FILE",
          "Plan to write, for --plan of run, bench, eval and others");
  AddContextFlag(*app, flags->session, "the model's, at most 4096");
  AddThreadsFlag(*app, flags->session);
  AddEngineFlags(*app, flags->model, flags->session);
  AddPlanStorageFlags(*app, flags->storage);
  app->footer(kPlanFooter);
  app->callback([app, flags, &action] {
    CheckPlanFlags(*app, *flags);
    action = [flags] { return MakePlan(*flags); };
  });
}

}  // namespace thermocline::cli
