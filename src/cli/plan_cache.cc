#include "cli/plan_cache.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "base/keyed_hash.h"
#include "base/log.h"
#include "cli/model_problem.h"
#include "engine/device/listed_placement.h"
#include "model/profile_file.h"
#include "planner/plan_file.h"

namespace thermocline::cli {
namespace {

// Any key: names of files are compared between runs.
constexpr HashKey kPlanKey = {.k0 = 0x7468'6572'6d6f'636c,
                              .k1 = 0x706c'616e'2066'696c};

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

// Models may be alike in all but how often their neurons fire: prepared anew
// from another text, or tuned without their norms.
uint64_t HashOfProfile(const model::Model& model) {
  const auto profile = model::ReadProfile(model.file());
  if (!profile) return 0;  // none; of a bad one whoever plans says so
  std::string text;
  for (const neuron::LayerProfile& layer : profile->profile.layers) {
    const auto bytes = std::as_bytes(std::span(layer.counts));
    const std::string_view counts(reinterpret_cast<const char*>(bytes.data()),
                                  bytes.size());
    text +=
        fmt::format("{} {:x} ", layer.num_tokens, SipHash13(kPlanKey, counts));
  }
  return SipHash13(kPlanKey, text);
}

std::string TextOf(const engine::PlacementRules& rules) {
  std::string text = fmt::format("{} {}", rules.num_host_experts,
                                 rules.num_layers ? *rules.num_layers + 1 : 0);
  for (const engine::TensorRule& rule : rules.tensors) {
    text += fmt::format(" {} {} {}", rule.pattern.size(), rule.pattern,
                        rule.on_device);
  }
  return text;
}

// What the file says was made for what is asked; what it lists is checked when
// it is placed.
Result<planner::PlanFile> ReadKept(const std::string& path,
                                   const std::string& machine,
                                   const engine::PlacementRequest& request) {
  TC_ASSIGN_OR_RETURN(planner::PlanFile plan, planner::ReadPlan(path));
  TC_RETURN_IF_ERROR(planner::CheckPlanFor(plan, *request.model, path));
  if (plan.machine != machine || plan.budget != request.vram ||
      plan.mode != NameOf(request.choice.mode) ||
      plan.method != planner::Method::kNative ||
      plan.placement.scheme != planner::Scheme::kSparse) {
    return Fail(ErrorCode::kInvalidArgument, "{}: is a plan for something else",
                path);
  }
  return plan;
}

std::optional<engine::Placement> PlaceAsKept(
    const std::string& path, const std::string& machine,
    const engine::PlacementRequest& request) {
  const auto plan = ReadKept(path, machine, request);
  if (!plan) {
    if (plan.error().code != ErrorCode::kNotFound) {
      LogWarning("{}; planned anew", plan.error().message);
    }
    return std::nullopt;
  }
  auto placed = engine::PlaceListed(request, PartsOf(plan->placement));
  if (placed) return *std::move(placed);
  LogWarning("{}: {}; planned anew", path, placed.error().message);
  return std::nullopt;
}

// What is free on a card differs a little from start to start; in steps it is
// mostly the same, and so is the plan.
constexpr uint64_t kBudgetStep = uint64_t{64} << 20;

PlaceFunction InSteps(PlaceFunction place) {
  return [place = std::move(place)](engine::PlacementRequest request) {
    if (request.vram >= kBudgetStep) request.vram -= request.vram % kBudgetStep;
    return place(request);
  };
}

void Keep(const planner::PlanFile& plan, const std::string& folder,
          const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const Status written = planner::WritePlan(plan, path);
  if (!written) {
    LogWarning("the plan is not kept for the next start: {}",
               written.error().message);
  }
}

}  // namespace

std::optional<std::string> PlanFolder() {
  if (const auto folder = Variable("THERMOCLINE_PLANS")) {
    return *folder == "none" ? std::nullopt : folder;
  }
  // Relative paths do not count, by the specification of the first one: plans
  // would lie wherever the program was started.
  const auto is_absolute = [](const std::optional<std::string>& path) {
    return path && path->starts_with('/');
  };
  if (const auto caches = Variable("XDG_CACHE_HOME"); is_absolute(caches)) {
    return *caches + "/thermocline/plans";
  }
  if (const auto home = Variable("HOME"); is_absolute(home)) {
    return *home + "/.cache/thermocline/plans";
  }
  return std::nullopt;
}

std::string PlanPathIn(const std::string& folder, const PlanMachine& machine,
                       const engine::PlacementRequest& request) {
  const model::ModelFingerprint model = model::FingerprintOf(*request.model);
  uint64_t num_weight_bytes = 0;
  for (const gguf::TensorInfo& tensor : request.model->file().tensors()) {
    num_weight_bytes += tensor.num_bytes;
  }
  const std::string key = fmt::format(
      "{} {} {:x} {} {:x}\n{}\n{} {} {} {} {} {}\n{}", TC_VERSION,
      model.architecture, model.hash, num_weight_bytes,
      HashOfProfile(*request.model), machine.identity, request.vram,
      request.context, request.num_kv_pages, NameOf(request.choice.mode),
      static_cast<int>(request.choice.predictor), request.choice.own_signs,
      TextOf(request.rules));
  return fmt::format("{}/{:016x}.json", folder, SipHash13(kPlanKey, key));
}

PlaceFunction PlaceKept(PlanInputs inputs, std::optional<std::string> folder) {
  if (inputs.counts_path || !folder) {
    return PlaceBy(planner::Method::kNative, std::move(inputs), nullptr);
  }
  return [inputs = std::move(inputs),
          folder = *std::move(folder)](const engine::PlacementRequest& request)
             -> Result<engine::Placement> {
    // What rules cannot have is an error, or said, at every start.
    TC_ASSIGN_OR_RETURN(const engine::Placement ruled,
                        engine::PlanPlacement(request));
    const std::string path = PlanPathIn(folder, inputs.machine, request);
    if (auto kept = PlaceAsKept(path, inputs.machine.name, request)) {
      kept->left_out = ruled.left_out;
      return *std::move(kept);
    }
    PlanMade made;
    auto placed = PlaceBy(planner::Method::kNative, inputs, &made)(request);
    if (placed)
      Keep(PlanFileOf(made, request, inputs.machine.name), folder, path);
    return placed;
  };
}

Status PlaceFor(const DeviceFlags& flags, engine::SessionOptions& session) {
  if (!WantsDevice(flags)) return {};
  if (flags.plan_path) return UsePlan(flags, session);
  TC_ASSIGN_OR_RETURN(PlanInputs inputs, PlanInputsOf(flags));
  session.place = PlaceKept(std::move(inputs), PlanFolder());
  if (flags.vrams.empty()) session.place = InSteps(std::move(session.place));
  return {};
}

}  // namespace thermocline::cli
