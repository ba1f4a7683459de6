// `thermocline plan`: who starts where, before anything is loaded.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/planned_placement.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "engine/runtime.h"

namespace thermocline::cli {
namespace {

struct PlanFlags {
  ModelFlags model;
  SessionFlags session;
  planner::Method method = planner::Method::kNative;
  std::optional<std::string> output_path;
  bool explain = false;
};

std::string Milliseconds(double seconds) {
  return fmt::format("{:.3f}", 1e3 * seconds);
}

std::string DescribePlan(const PlanMade& made, const std::string& machine,
                         const engine::RuntimePlan& plan,
                         const model::Config& config) {
  const planner::NamedPlacement& named = made.named;
  std::string text = fmt::format(
      "plan      {} for {}: {}\n"
      "device    {} of {}: {} of weights, {} of records, {} of keys and "
      "values, {} of activations\n"
      "predicted {} ms a token, {:.2f} tokens/s: the device reads {}, the host "
      "{}\n",
      planner::InfoOf(named.method).name, machine,
      engine::Describe(plan.engine.placement, config),
      FormatBytes(plan.memory.device.total()),
      FormatBytes(made.problem.budget + plan.memory.device.scratch),
      FormatBytes(plan.memory.device.weights),
      FormatBytes(plan.memory.device.slots), FormatBytes(plan.memory.device.kv),
      FormatBytes(plan.memory.device.scratch), Milliseconds(named.seconds),
      made.cost.tokens_per_s(),
      FormatBytes(static_cast<uint64_t>(made.cost.traffic.device)),
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
      "\n| layer | on the device | bytes there | attention ms | predictor ms | "
      "FFN ms: device, host | of the FFN's bytes there |\n"
      "|---:|---|---:|---:|---:|---:|---:|\n";
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
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {}, {} | {:.1f} % |\n", i,
        there.empty() ? "-" : there, FormatBytes(cost.device_bytes),
        Milliseconds(cost.attention.seconds),
        Milliseconds(cost.predictor.seconds),
        Milliseconds(cost.ffn.device_seconds),
        Milliseconds(cost.ffn.host_seconds), 100.0 * cost.share_there);
  }
  return text;
}

Status MakePlan(const PlanFlags& flags) {
  if (!WantsDevice(flags.session.device)) {
    return Fail(ErrorCode::kInvalidArgument,
                "a plan is for a device: say which, or --vram");
  }
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(flags.model, progress));
  TC_ASSIGN_OR_RETURN(const PlanInputs inputs,
                      PlanInputsOf(flags.session.device));
  const std::string& machine = inputs.machine.name;
  TC_ASSIGN_OR_RETURN(
      engine::SessionOptions options,
      MakeSessionOptions(flags.session, model->config(), progress));
  PlanMade made;
  std::optional<planner::PlanFile> file;
  const PlaceFunction solve = PlaceBy(flags.method, inputs, &made);
  options.place = [&](const engine::PlacementRequest& request) {
    auto placement = solve(request);
    if (placement) file = PlanFileOf(made, request, machine);
    return placement;
  };
  TC_ASSIGN_OR_RETURN(const engine::RuntimePlan plan,
                      engine::PlanRuntime(*model, options));
  std::string text = DescribePlan(made, machine, plan, model->config());
  if (flags.explain) text += ExplainLayers(made);
  if (!flags.output_path) return WriteStdout(text);
  TC_RETURN_IF_ERROR(
      CheckOutput(*flags.output_path, InputFilesOf(flags.model)));
  TC_RETURN_IF_ERROR(planner::WritePlan(*file, *flags.output_path));
  return WriteReport(text, {*flags.output_path});
}

}  // namespace

void AddPlanCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* app = parent.add_subcommand(
      "plan", "Decides what of a model lies on a device, and says why");
  AddModelFlags(*app, flags->model);
  AddParsed(*app, "--solver,--placement", "NAME",
            "How: native (default), ilp (PowerInfer's), frequency, "
            "dense-layers, sparse-layers, all-host, all-device",
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
  app->footer(
      "Nothing is loaded. Times are predictions for the middle of the context, "
      "by\nthe machine's rates (--machine; of a card measured first) and the "
      "model's profile.\n\n"
      "Examples:\n"
      "  thermocline plan -m model.gguf --vram 8GiB --explain -o plan.json\n"
      "  thermocline plan -m model.gguf --device sim --machine "
      "machines/rtx4090-ddr5.json --vram 8GiB --solver ilp");
  app->callback(
      [flags, &action] { action = [flags] { return MakePlan(*flags); }; });
}

}  // namespace thermocline::cli
