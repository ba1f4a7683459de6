#include "planner/plan_file.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "os/file.h"
#include "planner/plan_text.h"

namespace thermocline::planner {
namespace {

constexpr std::string_view kSchemeNames[] = {"sparse", "dense", "stream",
                                             "fetch"};

std::string_view JsonBool(bool value) { return value ? "true" : "false"; }

std::string FormatLayer(size_t layer_idx, const LayerExtent& extent,
                        const LayerPlace& place) {
  std::vector<std::string> parts;
  if (place.attention) parts.emplace_back("\"attention\"");
  if (place.predictor) parts.emplace_back("\"predictor\"");
  if (place.matrices) parts.emplace_back("\"matrices\"");
  std::string line = fmt::format("    {{\"layer\": {}, \"parts\": [{}]",
                                 layer_idx, fmt::join(parts, ", "));
  const auto add = [&](std::string_view key, uint32_t count,
                       const std::vector<uint32_t>& items) {
    if (count == 0) return;
    line += fmt::format(", \"{}\": {}, \"{}_there\": \"{}\"", key, count, key,
                        FormatRuns(items));
  };
  add("neurons", extent.num_neurons, place.neurons);
  add("experts", extent.num_experts, place.experts);
  return line + "}";
}

void CheckItems(const std::vector<uint32_t>& items, uint32_t count) {
  for (size_t i = 0; i < items.size(); ++i) {
    TC_CHECK(items[i] < count && (i == 0 || items[i - 1] < items[i]));
  }
}

// The plan's keys, read in the order in which they are written.
class PlanReader {
 public:
  PlanReader(const nlohmann::json& json, const std::string& path)
      : path_(path), top_(json, path, "") {}

  Result<PlanFile> Read() {
    TC_RETURN_IF_ERROR(ReadFormat(top_, kPlanFormat, kPlanVersion, path_));
    TC_ASSIGN_OR_RETURN(plan_.model, ReadFingerprint(top_));
    TC_ASSIGN_OR_RETURN(plan_.machine, top_.Text("machine"));
    TC_ASSIGN_OR_RETURN(plan_.budget, top_.Whole("budget_bytes", ~uint64_t{0}));
    TC_ASSIGN_OR_RETURN(plan_.mode, top_.Text("mode"));
    TC_ASSIGN_OR_RETURN(const std::string method, top_.Text("method"));
    const Result<Method> known = ParseMethod(method);
    if (!known) return top_.Wrong("method", "the name of a method");
    plan_.method = *known;
    TC_ASSIGN_OR_RETURN(plan_.seconds, top_.Seconds("seconds_per_token"));
    TC_RETURN_IF_ERROR(ReadScheme());
    TC_ASSIGN_OR_RETURN(plan_.placement.head, top_.Bool("head"));
    TC_RETURN_IF_ERROR(ReadLayers());
    TC_RETURN_IF_ERROR(top_.CheckNoOthers());
    return std::move(plan_);
  }

 private:
  Status ReadScheme() {
    TC_ASSIGN_OR_RETURN(const std::string name, top_.Text("scheme"));
    for (size_t i = 0; i < std::size(kSchemeNames); ++i) {
      if (name != kSchemeNames[i]) continue;
      plan_.placement.scheme = static_cast<Scheme>(i);
      return CheckSchemeAndMode();
    }
    return top_.Wrong("scheme",
                      fmt::format("one of {}", fmt::join(kSchemeNames, ", ")));
  }

  // Schemes that compute all neurons are for the mode that does.
  Status CheckSchemeAndMode() const {
    const bool is_dense = plan_.placement.scheme == Scheme::kDense ||
                          plan_.placement.scheme == Scheme::kStream;
    if (!is_dense || plan_.mode == "dense") return {};
    return top_.Wrong("scheme", "sparse or fetch, but for mode \"dense\"");
  }

  Status ReadLayers() {
    TC_ASSIGN_OR_RETURN(const nlohmann::json* layers, top_.Array("layers"));
    if (layers->size() != plan_.model.num_layers) {
      return top_.Wrong("layers",
                        fmt::format("a list of {}, as the model has",
                                    Plural(plan_.model.num_layers, "layer")));
    }
    for (size_t i = 0; i < layers->size(); ++i) {
      TC_RETURN_IF_ERROR(ReadLayer(i, (*layers)[i]));
    }
    return {};
  }

  Status ReadLayer(size_t layer_idx, const nlohmann::json& json) {
    const std::string key = fmt::format("layers[{}]", layer_idx);
    if (!json.is_object()) return top_.Wrong(key, "an object");
    PlanFields fields(json, path_, key + ".");
    TC_ASSIGN_OR_RETURN(const uint64_t number,
                        fields.Whole("layer", kMaxLayers));
    if (number != layer_idx) {
      return fields.Wrong("layer", fmt::format("{}", layer_idx));
    }
    LayerExtent extent;
    LayerPlace place;
    TC_RETURN_IF_ERROR(ReadParts(fields, place));
    TC_RETURN_IF_ERROR(
        ReadItems(fields, "neurons", extent.num_neurons, place.neurons));
    TC_RETURN_IF_ERROR(
        ReadItems(fields, "experts", extent.num_experts, place.experts));
    TC_RETURN_IF_ERROR(fields.CheckNoOthers());
    plan_.extents.push_back(extent);
    plan_.placement.layers.push_back(std::move(place));
    return {};
  }

  static Status ReadParts(PlanFields& fields, LayerPlace& place) {
    constexpr std::string_view kMustBe =
        "a list of \"attention\", \"predictor\" and \"matrices\", each once at "
        "most";
    TC_ASSIGN_OR_RETURN(const nlohmann::json* parts, fields.Array("parts"));
    for (const nlohmann::json& part : *parts) {
      bool* is_there = nullptr;
      if (part == "attention") is_there = &place.attention;
      if (part == "predictor") is_there = &place.predictor;
      if (part == "matrices") is_there = &place.matrices;
      if (is_there == nullptr || *is_there) {
        return fields.Wrong("parts", kMustBe);
      }
      *is_there = true;
    }
    return {};
  }

  // Absent where there are none.
  Status ReadItems(PlanFields& fields, const std::string& key, uint32_t& count,
                   std::vector<uint32_t>& items) {
    const std::string there = key + "_there";
    if (!fields.Has(key) && !fields.Has(there)) return {};
    TC_ASSIGN_OR_RETURN(const uint64_t number, fields.Whole(key, kMaxItems));
    if (number == 0) return fields.Wrong(key, "1 or more, or absent");
    num_items_ += number;
    if (num_items_ > kMaxAllItems) {
      return fields.Wrong(
          key, fmt::format("at most {} in all layers together", kMaxAllItems));
    }
    count = static_cast<uint32_t>(number);
    TC_ASSIGN_OR_RETURN(const std::string text, fields.Text(there));
    std::optional<std::vector<uint32_t>> parsed = ParseRuns(text, count);
    if (!parsed) {
      return fields.Wrong(
          there, fmt::format("ascending numbers below {} and runs of them, as "
                             "\"0-63,70\"",
                             count));
    }
    items = *std::move(parsed);
    return {};
  }

  const std::string& path_;
  PlanFields top_;
  PlanFile plan_;
  uint64_t num_items_ = 0;
};

}  // namespace

std::vector<LayerExtent> ExtentsOf(const Problem& problem) {
  std::vector<LayerExtent> extents;
  for (const Layer& layer : problem.layers) {
    extents.push_back({static_cast<uint32_t>(layer.neurons.count()),
                       static_cast<uint32_t>(layer.experts.experts.size())});
  }
  return extents;
}

std::string FormatPlan(const PlanFile& plan) {
  TC_CHECK(plan.extents.size() == plan.placement.layers.size());
  std::string text =
      fmt::format("{{\n  \"format\": \"{}\",\n  \"version\": {},\n",
                  kPlanFormat, kPlanVersion);
  text += FormatFingerprint(plan.model);
  text += fmt::format(
      "  \"machine\": {},\n  \"budget_bytes\": {},\n  \"mode\": {},\n"
      "  \"method\": \"{}\",\n  \"seconds_per_token\": {},\n"
      "  \"scheme\": \"{}\",\n  \"head\": {},\n  \"layers\": [",
      JsonText(plan.machine), plan.budget, JsonText(plan.mode),
      InfoOf(plan.method).name,
      plan.seconds ? fmt::format("{}", *plan.seconds) : "null",
      kSchemeNames[static_cast<size_t>(plan.placement.scheme)],
      JsonBool(plan.placement.head));
  for (size_t i = 0; i < plan.extents.size(); ++i) {
    const LayerPlace& place = plan.placement.layers[i];
    CheckItems(place.neurons, plan.extents[i].num_neurons);
    CheckItems(place.experts, plan.extents[i].num_experts);
    text += i == 0 ? "\n" : ",\n";
    text += FormatLayer(i, plan.extents[i], place);
  }
  return text + "\n  ]\n}\n";
}

Result<PlanFile> ParsePlan(std::string_view text, const std::string& path) {
  if (text.size() > kMaxPlanBytes) {
    return Fail(ErrorCode::kCorrupt, "{}: {}, more than the {} of a plan", path,
                FormatBytes(text.size()), FormatBytes(kMaxPlanBytes));
  }
  TC_ASSIGN_OR_RETURN(const nlohmann::json json, ParsePlanJson(text, path));
  return PlanReader(json, path).Read();
}

Result<PlanFile> ReadPlan(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const std::string text,
                      os::ReadFile(path, kMaxPlanBytes));
  return ParsePlan(text, path);
}

Status WritePlan(const PlanFile& plan, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const std::unique_ptr<os::AtomicFile> file,
                      os::AtomicFile::Create(path));
  TC_RETURN_IF_ERROR(file->Write(std::string_view(FormatPlan(plan))));
  return file->Commit();
}

Status CheckPlanFor(const PlanFile& plan, const model::Model& model,
                    const std::string& path) {
  TC_RETURN_IF_ERROR(
      model::CheckSameModel(plan.model, model, path + ": was made"));
  for (size_t i = 0; i < plan.extents.size(); ++i) {
    const model::FfnSpec& ffn = model.config().layers[i].ffn;
    const LayerExtent& extent = plan.extents[i];
    const bool fits =
        (extent.num_neurons == 0 || extent.num_neurons == ffn.width) &&
        (extent.num_experts == 0 || extent.num_experts == ffn.num_experts);
    if (fits) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "{}: layer {} has {} neurons and {} experts there, {} and {} "
                "in the model {}",
                path, i, extent.num_neurons, extent.num_experts, ffn.width,
                ffn.num_experts, model.file().path());
  }
  return {};
}

}  // namespace thermocline::planner
