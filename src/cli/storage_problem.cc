#include "cli/storage_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <string_view>

#include "engine/engine_plan.h"
#include "engine/ffn/neuron_pieces.h"
#include "engine/left_tensors.h"
#include "engine/stream/stream_options.h"
#include "engine/stream/unit_choice.h"
#include "model/profile_file.h"

namespace thermocline::cli {
namespace {

using engine::FfnMode;
using engine::StreamUnit;

// Of a trained predictor, where nothing else is known.
constexpr double kCandidatesPerFired = 1.6;
// Share of the neurons that fire in models of the ReLU family, by what papers
// say, where nobody has counted.
constexpr double kUsualFiring = 0.15;
constexpr uint64_t kWholeRead = uint64_t{1} << 20;

double BytesOfView(const TensorView& view) {
  return view ? static_cast<double>(view.num_bytes()) : 0.0;
}
double RowOfView(const TensorView& view) {
  return view ? static_cast<double>(view.row_bytes()) : 0.0;
}

// N of "blk.N.name"; nothing of others.
std::optional<size_t> LayerOfTensor(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  size_t layer_idx = 0;
  const char* begin = name.data() + kPrefix.size();
  const auto [end, error] =
      std::from_chars(begin, name.data() + name.size(), layer_idx);
  if (error != std::errc() || end == begin) return std::nullopt;
  return layer_idx;
}

bool TestsAllGates(FfnMode mode) {
  return mode == FfnMode::kExact || mode == FfnMode::kThreshold;
}

double MatricesOf(const model::FfnMatrices& ffn) {
  return BytesOfView(ffn.gate) + BytesOfView(ffn.up) +
         BytesOfView(ffn.down ? ffn.down : ffn.down_t);
}

uint32_t NumReads(uint64_t num_bytes) {
  return static_cast<uint32_t>((num_bytes + kWholeRead - 1) / kWholeRead);
}

// Share of the neurons that fire, by the model's profile.
double FiringOf(const std::vector<float>& counts, const model::Model& model) {
  const auto profile = model::ReadProfile(model.file());
  if (!profile || counts.empty()) return kUsualFiring;
  const double density = profile->profile.density();
  return density > 0.0 ? density : kUsualFiring;
}

}  // namespace

std::string UnitName(const std::optional<engine::LeftWeights>& left) {
  return left ? std::string(engine::NameOf(left->unit)) : "none";
}

Result<StorageProblem> StorageProblem::Create(
    const model::Model* model, const engine::SessionOptions& options,
    const planner::StorageMachine* machine, const StorageQuestion& question) {
  StorageProblem problem(model, options, machine);
  problem.question_ = question;
  if (question.policies.empty()) {
    problem.question_.policies = {std::string(engine::PolicyOf(""))};
  }
  const model::Config& config = model->config();
  TC_ASSIGN_OR_RETURN(problem.choice_, engine::ChooseFfn(config, options.ffn,
                                                         options.predictor));
  problem.options_.ffn = problem.choice_.mode;
  problem.options_.budget = {};
  TC_RETURN_IF_ERROR(problem.ChooseUnit());
  const bool is_mixture = engine::UnitOf(config) == StreamUnit::kExperts;
  const StreamUnit unit = *problem.options_.unit;
  const bool is_drawn = is_mixture || (unit == StreamUnit::kRecords &&
                                       problem.choice_.mode != FfnMode::kDense);
  if (is_drawn) {
    const bool all =
        unit == StreamUnit::kRecords && TestsAllGates(problem.choice_.mode);
    TC_ASSIGN_OR_RETURN(
        problem.uses_,
        UsesOf(*model, {.trace_path = question.trace_path,
                        .counts_path = question.counts_path,
                        .used_per_fired = all ? 0.0 : kCandidatesPerFired,
                        .by_experts = unit == StreamUnit::kExperts}));
  } else {
    problem.uses_.source = "known exactly: all are computed, of every token";
  }
  TC_ASSIGN_OR_RETURN(const engine::RuntimePlan plan,
                      engine::PlanRuntime(config, problem.options_));
  problem.context_ = plan.engine.context;
  return problem;
}

// Of a mixture that may stream either way this is the problem by neurons.
Status StorageProblem::ChooseUnit() {
  const model::Config& config = model_->config();
  TC_ASSIGN_OR_RETURN(const engine::UnitsThatMay units,
                      engine::UnitsFor(config, {.left = engine::UnitOf(config),
                                                .ffn = choice_.mode,
                                                .mode = options_.storage,
                                                .asked = options_.unit}));
  options_.unit = engine::UnitOf(config);
  if (*options_.unit != StreamUnit::kExperts || !units.records) return {};
  if (units.experts) {
    TC_ASSIGN_OR_RETURN(StorageProblem other,
                        Create(model_, options_, machine_, question_));
    by_experts_ = std::make_shared<StorageProblem>(std::move(other));
  }
  options_.unit = StreamUnit::kRecords;
  return {};
}

Result<StorageProblem::Held> StorageProblem::HoldBy(
    std::optional<StreamUnit> unit, uint64_t ram, uint32_t num_threads) const {
  const model::Config& config = model_->config();
  const gguf::File& file = model_->file();
  engine::SessionOptions options = options_;
  options.unit = unit;
  options.budget.ram = ram;
  options.num_threads = static_cast<int>(num_threads);
  TC_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      engine::TensorsToLeave(file, config, options));
  Held held = {.left = engine::LeftOf(file, config, names),
               .left_bytes = std::vector<uint64_t>(config.layers.size(), 0)};
  engine::WeightMemory weights = {.bundle_bytes = model_->num_bundle_bytes(),
                                  .are_held = held.left.has_value(),
                                  .left = held.left};
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const bool stays = std::ranges::find(names, tensor.name) != names.end();
    if (!stays) {
      weights.num_bytes += tensor.num_bytes;
    } else if (const auto layer = LayerOfTensor(tensor.name);
               layer && *layer < held.left_bytes.size()) {
      held.left_bytes[*layer] += tensor.num_bytes;
    }
  }
  TC_ASSIGN_OR_RETURN(held.runtime,
                      engine::PlanRuntime(config, options, weights));
  if (held.left) held.left->unit = held.runtime.engine.stream->unit;
  return held;
}

uint32_t StorageProblem::most_threads() const {
  const planner::CoreLimits& limits = question_.limits;
  size_t most =
      limits.cpus.empty() ? machine_->cores.size() : limits.cpus.size();
  if (limits.most_threads > 0) {
    most = std::min<size_t>(most, limits.most_threads);
  }
  return static_cast<uint32_t>(std::max<size_t>(most, 1));
}

Result<StorageProblem::Held> StorageProblem::HoldAsRun(uint64_t ram) const {
  return HoldBy(by_experts_ ? std::nullopt : options_.unit, ram,
                most_threads());
}

Result<uint64_t> StorageProblem::LeastRam() const {
  TC_ASSIGN_OR_RETURN(const Held held, HoldAsRun(0));
  return held.runtime.memory.host.total();
}

Result<uint64_t> StorageProblem::AllRam() const {
  TC_ASSIGN_OR_RETURN(const Held held, HoldAsRun(UINT64_MAX));
  return held.runtime.memory.host.total();
}

std::vector<uint32_t> StorageProblem::CapacityOf(const Held& held) const {
  if (!held.left) return uses_.num_units;
  const engine::StreamOptions& stream = *held.runtime.engine.stream;
  std::vector<uint32_t> capacity = held.left->unit == StreamUnit::kRecords
                                       ? stream.arena.resident
                                       : stream.blocks.resident;
  capacity.resize(uses_.num_units.empty() ? model_->config().layers.size()
                                          : uses_.num_units.size());
  return capacity;
}

ReadShape StorageProblem::ShapeOfReads(const Held& held) const {
  const model::Config& config = model_->config();
  if (!held.left) return {.unit_bytes = 1};
  if (held.left->unit == StreamUnit::kExperts) {
    // Gate, up and down lie in tensors of their own.
    const model::FfnMatrices& first =
        model_->weights().layers.front().ffn.experts.front();
    return {.unit_bytes = std::max<uint64_t>(held.left->block_bytes, 1),
            .reads_per_unit = first.gate ? 3u : 2u};
  }
  const uint64_t stride = config.records.front().stride;
  const bool touch =
      std::ranges::all_of(config.records, [&](const auto& layout) {
        return layout.stride == held.runtime.engine.stream->arena.slot_bytes;
      });
  return ReadsOfRecords(stride, touch);
}

planner::StreamLayer StorageProblem::LayerOf(size_t layer_idx,
                                             const Held& held) const {
  const model::Config& config = model_->config();
  const model::LayerWeights& weights = model_->weights().layers[layer_idx];
  const double kv = static_cast<double>(engine::KvBytesPerToken(
                        config, options_, context_ / 2)) /
                    static_cast<double>(config.layers.size());
  planner::StreamLayer layer = {
      .fixed_bytes = BytesOfView(weights.attention.q) +
                     BytesOfView(weights.attention.k) +
                     BytesOfView(weights.attention.v) +
                     BytesOfView(weights.attention.out) +
                     BytesOfView(weights.ffn.router) + kv,
      .left_bytes = static_cast<double>(held.left_bytes[layer_idx])};
  if (choice_.mode == FfnMode::kFast) {
    layer.fixed_bytes +=
        BytesOfView(weights.predictor.up) + BytesOfView(weights.predictor.down);
  }
  AddFfn(layer_idx, layer);
  return layer;
}

void StorageProblem::AddFfn(size_t layer_idx,
                            planner::StreamLayer& layer) const {
  const model::FfnSpec& spec = model_->config().layers[layer_idx].ffn;
  const model::LayerWeights& weights = model_->weights().layers[layer_idx];
  if (spec.num_experts > 0) {
    for (const model::FfnMatrices& expert : weights.ffn.experts) {
      layer.all_bytes += MatricesOf(expert);
    }
    layer.used_bytes =
        *options_.unit == StreamUnit::kExperts
            ? layer.all_bytes / static_cast<double>(spec.num_experts)
            : BytesOfNeuron(layer_idx, weights.ffn.experts.front());
  } else if (uses_.tokens.empty()) {
    layer.fixed_bytes += MatricesOf(weights.ffn);
  } else {
    const model::FfnMatrices& ffn = weights.ffn;
    layer.used_bytes = BytesOfNeuron(layer_idx, ffn);
    layer.all_bytes =
        static_cast<double>(spec.width) *
        (RowOfView(ffn.gate) + RowOfView(ffn.up) + RowOfView(ffn.down_t));
  }
}

// That is asked for: its test, and the rest of those that fire.
double StorageProblem::BytesOfNeuron(size_t layer_idx,
                                     const model::FfnMatrices& ffn) const {
  const double tested = RowOfView(ffn.gate ? ffn.gate : ffn.up);
  const double rest =
      (ffn.gate ? RowOfView(ffn.up) : 0.0) + RowOfView(ffn.down_t);
  // A profile counts those of experts that rest too.
  const model::FfnSpec& spec = model_->config().layers[layer_idx].ffn;
  const double per_used = spec.num_experts > 0
                              ? static_cast<double>(spec.num_experts) /
                                    static_cast<double>(spec.num_experts_used)
                              : 1.0;
  const double fires =
      TestsAllGates(choice_.mode)
          ? std::min(1.0,
                     per_used * FiringOf(uses_.frequency[layer_idx], *model_))
          : 1.0 / kCandidatesPerFired;
  return tested + fires * rest;
}

planner::StreamModel StorageProblem::StreamOf(const Held& held) const {
  planner::StreamModel stream;
  const std::vector<uint32_t> capacity = CapacityOf(held);
  for (size_t l = 0; l < model_->config().layers.size(); ++l) {
    stream.layers.push_back(LayerOf(l, held));
    if (!held.left || held.left->unit == StreamUnit::kLayers) continue;
    // What lies in slots is not read for a prompt.
    const model::FfnSpec& spec = model_->config().layers[l].ffn;
    const auto units = static_cast<double>(
        std::max(held.left->unit == StreamUnit::kExperts ? spec.num_experts
                                                         : NumNeurons(spec),
                 size_t{1}));
    const double kept = std::min(1.0, static_cast<double>(capacity[l]) / units);
    stream.layers.back().left_bytes *= 1.0 - kept;
  }
  stream.layers.push_back({.fixed_bytes = BytesOfView(model_->weights().head)});
  const bool in_order = uses_.tokens.empty();
  stream.timing =
      in_order ? planner::ReadTiming::kInOrder : planner::ReadTiming::kInLayer;
  // Experts are computed one by one; of records there are pieces.
  const size_t num_experts_used =
      model_->config().layers.front().ffn.num_experts_used;
  stream.num_pieces = static_cast<uint32_t>(
      num_experts_used > 0 && *options_.unit == StreamUnit::kExperts
          ? num_experts_used
          : engine::PieceSums::kMaxPieces);
  if (held.left && held.left->unit == StreamUnit::kLayers) {
    stream.num_slots = held.runtime.engine.stream->blocks.pass_slots;
  }
  return stream;
}

// Of models whose every token reads the same.
std::vector<planner::TokenUse> StorageProblem::KnownUses(
    const Held& held) const {
  const model::Config& config = model_->config();
  planner::TokenUse token(config.layers.size() + 1);
  const bool has_records = held.left && held.left->unit == StreamUnit::kRecords;
  for (size_t l = 0; l < config.layers.size(); ++l) {
    planner::LayerUse& use = token[l];
    if (has_records) {
      const uint64_t width = NumNeurons(config.layers[l].ffn);
      const uint64_t kept = std::min<uint64_t>(
          held.runtime.engine.stream->arena.resident[l], width);
      use.num_used = static_cast<uint32_t>(width);
      use.num_missed = static_cast<uint32_t>(width - kept);
      use.read_bytes = (width - kept) * config.records[l].stride;
    } else {
      use.num_used = 1;
      use.num_missed = held.left_bytes[l] > 0 ? 1 : 0;
      use.read_bytes = held.left_bytes[l];
    }
    use.num_reads = NumReads(use.read_bytes);
  }
  return {token};
}

Result<std::vector<planner::TokenUse>> StorageProblem::Replay(
    const std::string& policy, const Held& held) {
  const std::pair key(policy, CapacityOf(held));
  const auto known = replays_.find(key);
  if (known != replays_.end()) return known->second;
  TC_ASSIGN_OR_RETURN(
      std::vector<planner::TokenUse> uses,
      ReplayUses(uses_, policy, key.second, ShapeOfReads(held)));
  for (planner::TokenUse& token : uses) token.emplace_back();  // the head
  replays_[key] = uses;
  return uses;
}

Result<std::vector<planner::StorageCase>> StorageProblem::CasesFor(
    uint64_t ram, uint32_t num_threads) {
  TC_ASSIGN_OR_RETURN(const Held held, Hold(ram, num_threads));
  planner::StorageCase base = {.unit = UnitName(held.left),
                               .cache_bytes = held.runtime.memory.host.slots,
                               .total_bytes = held.runtime.memory.host.total(),
                               .model = StreamOf(held)};
  std::vector<planner::StorageCase> cases;
  if (uses_.tokens.empty()) {
    base.uses = [uses = KnownUses(held)] {
      return Result<std::vector<planner::TokenUse>>(uses);
    };
    cases.push_back(std::move(base));
    return cases;
  }
  for (const std::string& policy : question_.policies) {
    planner::StorageCase one = base;
    one.policy = policy;
    one.uses = [this, policy, held] { return Replay(policy, held); };
    cases.push_back(std::move(one));
    if (!held.left) break;  // nobody leaves
  }
  return cases;
}

Result<planner::StoragePlan> StorageProblem::Plan(uint64_t ram) {
  // Fewer threads need less, at every budget.
  TC_ASSIGN_OR_RETURN(const Held most, HoldAsRun(ram));
  const Status fits =
      engine::CheckMemory(most.runtime.memory, {.ram = ram}, UINT64_MAX);
  if (!fits.has_value()) return Annotate(model_->file().path(), fits.error());
  const auto cases =
      [&](uint32_t num_threads) -> Result<std::vector<planner::StorageCase>> {
    TC_ASSIGN_OR_RETURN(std::vector<planner::StorageCase> all,
                        CasesFor(ram, num_threads));
    if (!by_experts_) return all;
    TC_ASSIGN_OR_RETURN(std::vector<planner::StorageCase> others,
                        by_experts_->CasesFor(ram, num_threads));
    std::ranges::move(others, std::back_inserter(all));
    // The budget holds one of both at least.
    std::erase_if(all,
                  [ram](const auto& one) { return one.total_bytes > ram; });
    return all;
  };
  return planner::PlanStorage(*machine_, question_.limits, cases);
}

}  // namespace thermocline::cli
