#include "cli/storage_uses.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "base/units.h"
#include "cli/storage_draw.h"
#include "engine/stream/read_plan.h"
#include "model/firing_shares.h"
#include "model/profile_file.h"
#include "neuron/profile.h"
#include "neuron/trace.h"
#include "residency/policy.h"
#include "residency/replay.h"

namespace thermocline::cli {
namespace {

// Where nobody has counted: what papers say of models of the ReLU family.
constexpr float kUncountedShare = 0.15f;
constexpr size_t kMostTokens = 384;
constexpr size_t kLeastTokens = 24;
// Of all tokens together: some seconds of a policy.
constexpr double kMostUses = 4e6;

struct Law {
  std::vector<LayerLaw> layers;
  std::string source;
};

Result<Law> ReadLaw(const model::Model& model, const UseOptions& options) {
  const auto profile = options.counts_path
                           ? model::ReadProfile(*options.counts_path)
                           : model::ReadProfile(model.file());
  const std::string path = options.counts_path.value_or(model.file().path());
  if (!profile) {
    const bool is_own = !options.counts_path;
    if (!is_own || profile.error().code != ErrorCode::kNotFound) {
      return tl::unexpected(profile.error());
    }
    Law law = {.source =
                   "tokens drawn as if all were as busy: the file has no "
                   "profile, and there is no trace"};
    for (const model::LayerSpec& layer : model.config().layers) {
      const size_t experts = std::max<size_t>(layer.ffn.num_experts, 1);
      law.layers.push_back(
          {std::vector<float>(layer.ffn.width * experts, kUncountedShare)});
    }
    return law;
  }
  TC_RETURN_IF_ERROR(model::CheckSameModel(profile->model, model,
                                           path + ": its profile was made"));
  const std::optional<double> locality = profile->profile.locality();
  return Law{
      .layers = LawsOf(profile->profile),
      .source = fmt::format(
          "tokens drawn from the counts in {}{}", path,
          locality ? fmt::format(", of which {:.0f} % stay from token to token",
                                 100.0 * *locality)
                   : ", each on its own")};
}

// What the engine tells its policy.
std::vector<std::vector<float>> SharesInFile(const model::Model& model,
                                             bool by_experts) {
  std::vector<std::vector<float>> shares;
  for (size_t i = 0; i < model.config().layers.size(); ++i) {
    shares.push_back(by_experts ? model::ExpertShares(model, i)
                                : model::FiringShares(model, i));
  }
  return shares;
}

bool IsMixture(const model::Config& config) {
  return model::CommonFfn(config).num_experts > 0;
}

size_t NumTokens(double uses_per_token) {
  const double most = kMostUses / std::max(uses_per_token, 1.0);
  return static_cast<size_t>(std::clamp(most, static_cast<double>(kLeastTokens),
                                        static_cast<double>(kMostTokens)));
}

std::vector<uint32_t> MembersOf(const std::vector<bool>& set) {
  std::vector<uint32_t> members;
  for (size_t i = 0; i < set.size(); ++i) {
    if (set[i]) members.push_back(static_cast<uint32_t>(i));
  }
  return members;
}

// Whole experts, or with by_experts unset their neurons.
void DrawExperts(const model::Config& config, const UseOptions& options,
                 const std::vector<LayerLaw>& laws, UnitUses& uses) {
  double per_token = 0.0;
  for (const model::LayerSpec& layer : config.layers) {
    per_token +=
        static_cast<double>(layer.ffn.width * layer.ffn.num_experts_used);
  }
  const size_t num_tokens = NumTokens(per_token);
  ExpertDrawer experts(config, laws, options.seed);
  std::optional<ExpertNeurons> neurons;
  if (!options.by_experts) {
    neurons.emplace(config, laws, options.used_per_fired, options.seed + 1);
  }
  for (size_t t = 0; t < num_tokens; ++t) {
    auto& token = uses.tokens.emplace_back();
    for (size_t l = 0; l < laws.size(); ++l) {
      token.push_back(experts.Next(l));
      if (neurons) token.back() = neurons->Of(l, token.back(), {});
    }
  }
}

void DrawTokens(const model::Config& config, const UseOptions& options,
                const std::vector<LayerLaw>& laws, UnitUses& uses) {
  if (IsMixture(config)) {
    DrawExperts(config, options, laws, uses);
    return;
  }
  double per_token = 0.0;
  for (const LayerLaw& law : laws) {
    per_token += options.used_per_fired *
                 std::accumulate(law.shares.begin(), law.shares.end(), 0.0);
  }
  const size_t num_tokens = NumTokens(per_token);
  Drawer drawer(laws, options.used_per_fired, /*extra_only=*/false,
                options.seed);
  for (size_t t = 0; t < num_tokens; ++t) {
    auto& token = uses.tokens.emplace_back();
    for (size_t l = 0; l < laws.size(); ++l) {
      token.push_back(MembersOf(drawer.Next(l)));
    }
  }
}

Status CheckTraceOf(const model::Model& model,
                    const neuron::TraceReader& reader) {
  const model::ModelFingerprint mine = model::FingerprintOf(model);
  const neuron::TraceHeader& header = reader.header();
  const size_t neurons = mine.ffn_width * std::max<size_t>(mine.num_experts, 1);
  const bool is_same =
      header.num_layers == mine.num_layers && header.num_neurons == neurons &&
      (header.model_hash == 0 || header.model_hash == mine.hash);
  if (is_same) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      "{}: is a trace of another model: of {} of {} there, {} of {} in "
      "{}{}",
      reader.name(), Plural(header.num_layers, "layer"),
      Plural(header.num_neurons, "neuron"), Plural(mine.num_layers, "layer"),
      Plural(neurons, "neuron"), model.file().path(),
      header.num_layers == mine.num_layers && header.num_neurons == neurons
          ? ", and of other norms or neurons' numbers"
          : "");
}

// The tokens that count, until there are enough.
class TraceTokens {
 public:
  TraceTokens(neuron::TraceReader reader, const UseOptions& options)
      : reader_(std::move(reader)), options_(options) {}

  Status ReadInto(const model::Config& config, UnitUses& uses) {
    TC_RETURN_IF_ERROR(Read(/*generated_only=*/true));
    const bool has_generated = !fired_.empty();
    if (!has_generated) {
      TC_ASSIGN_OR_RETURN(reader_, neuron::TraceReader::Open(reader_.name()));
      TC_RETURN_IF_ERROR(Read(/*generated_only=*/false));
    }
    if (fired_.size() < 2) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: has {}: too few to see what a cache misses",
                  reader_.name(), Plural(fired_.size(), "token"));
    }
    uses.source = fmt::format("the trace {}, {}{}", reader_.name(),
                              Plural(fired_.size(), "token"),
                              has_generated ? "" : " of prompts");
    AddTokens(config, uses);
    return {};
  }

 private:
  Status Read(bool generated_only) {
    neuron::TraceToken token;
    std::vector<std::vector<uint32_t>> sets;
    double num_uses = 0.0;
    while (num_uses < 2 * kMostUses && fired_.size() < 4 * kMostTokens) {
      TC_ASSIGN_OR_RETURN(const bool is_token, reader_.Next(token, sets));
      if (!is_token) break;
      if (generated_only && !token.is_generated) continue;
      fired_.push_back(sets);
      begins_.push_back(token.begins_sequence);
      for (const auto& set : sets) num_uses += static_cast<double>(set.size());
    }
    return {};
  }

  // Beside those that fired, those that a predictor takes for such.
  void AddTokens(const model::Config& config, UnitUses& uses) {
    const size_t num_layers = reader_.header().num_layers;
    neuron::ProfileBuilder counts(num_layers, reader_.header().num_neurons);
    for (size_t t = 0; t < fired_.size(); ++t) {
      if (t == 0 || begins_[t]) counts.BeginSequence();
      for (size_t l = 0; l < num_layers; ++l) counts.Add(l, fired_[t][l]);
    }
    if (IsMixture(config)) {
      AddExperts(config, LawsOf(counts.profile()), uses);
      return;
    }
    Drawer others(LawsOf(counts.profile()), options_.used_per_fired,
                  /*extra_only=*/true, options_.seed);
    for (auto& token : fired_) {
      for (size_t l = 0; l < num_layers; ++l) {
        if (options_.used_per_fired > 1.0) {
          std::vector<uint32_t> both;
          std::ranges::set_union(token[l], MembersOf(others.Next(l)),
                                 std::back_inserter(both));
          token[l] = std::move(both);
        }
      }
      uses.tokens.push_back(std::move(token));
    }
  }

  // Experts of those that fired; or their neurons, with those that a predictor
  // takes for such, or with all.
  void AddExperts(const model::Config& config, std::vector<LayerLaw> laws,
                  UnitUses& uses) {
    const double extra = options_.used_per_fired == 0.0
                             ? 0.0
                             : std::max(options_.used_per_fired - 1.0, 1e-9);
    ExpertNeurons others(config, std::move(laws), extra, options_.seed);
    for (auto& token : fired_) {
      for (size_t l = 0; l < token.size(); ++l) {
        std::vector<uint32_t> experts =
            ExpertsOf(token[l], config.layers[l].ffn.width);
        token[l] = options_.by_experts ? std::move(experts)
                                       : others.Of(l, experts, token[l]);
      }
      uses.tokens.push_back(std::move(token));
    }
  }

  neuron::TraceReader reader_;
  const UseOptions& options_;
  std::vector<std::vector<std::vector<uint32_t>>> fired_;
  std::vector<bool> begins_;
};

std::vector<uint32_t> UnitsOfLayers(const model::Config& config,
                                    bool by_experts) {
  std::vector<uint32_t> units;
  for (const model::LayerSpec& layer : config.layers) {
    units.push_back(static_cast<uint32_t>(by_experts ? layer.ffn.num_experts
                                                     : NumNeurons(layer.ffn)));
  }
  return units;
}

UnitUses AllOfEvery(UnitUses uses) {
  constexpr size_t kFewTokens = 6;  // they are alike
  std::vector<std::vector<uint32_t>> token;
  for (const uint32_t units : uses.num_units) {
    token.emplace_back(units);
    std::iota(token.back().begin(), token.back().end(), 0u);
  }
  uses.tokens.assign(kFewTokens, token);
  uses.num_warm = kFewTokens / 2;
  uses.source = "all of them are asked for, of every token";
  return uses;
}

// Reads and bytes of what is missing, ascending.
void AddReads(const std::vector<uint32_t>& missed, const ReadShape& shape,
              planner::LayerUse& use) {
  use.num_missed = static_cast<uint32_t>(missed.size());
  if (shape.reads_per_unit > 1 || shape.most_bytes == 0) {
    use.num_reads = use.num_missed * shape.reads_per_unit;
    use.read_bytes = use.num_missed * shape.unit_bytes;
    return;
  }
  const uint64_t most =
      std::max<uint64_t>(shape.most_bytes / shape.unit_bytes, 1);
  for (size_t i = 0; i < missed.size();) {
    size_t end = i + 1;
    while (end < missed.size() && missed[end] - missed[i] < most &&
           (missed[end] - missed[end - 1] - 1) * shape.unit_bytes <=
               shape.gap_bytes) {
      ++end;
    }
    ++use.num_reads;
    use.read_bytes += (missed[end - 1] - missed[i] + 1) * shape.unit_bytes;
    i = end;
  }
}

}  // namespace

Result<UnitUses> UsesOf(const model::Model& model, const UseOptions& options) {
  const model::Config& config = model.config();
  UnitUses uses = {.num_units = UnitsOfLayers(config, options.by_experts),
                   .frequency = SharesInFile(model, options.by_experts)};
  // A profile is as wide as the widest layer.
  for (size_t l = 0; l < uses.frequency.size(); ++l) {
    if (!uses.frequency[l].empty()) uses.frequency[l].resize(uses.num_units[l]);
  }
  if (options.used_per_fired == 0.0 && !IsMixture(config)) {
    return AllOfEvery(std::move(uses));
  }
  if (options.trace_path) {
    TC_ASSIGN_OR_RETURN(neuron::TraceReader reader,
                        neuron::TraceReader::Open(*options.trace_path));
    TC_RETURN_IF_ERROR(CheckTraceOf(model, reader));
    TC_RETURN_IF_ERROR(
        TraceTokens(std::move(reader), options).ReadInto(config, uses));
  } else {
    TC_ASSIGN_OR_RETURN(const Law law, ReadLaw(model, options));
    uses.source = law.source;
    DrawTokens(config, options, law.layers, uses);
  }
  uses.num_warm = uses.tokens.size() / 3;
  return uses;
}

ReadShape ReadsOfRecords(uint64_t stride, bool slots_touch) {
  const engine::ReadPlan plan;  // what was not measured
  return {.unit_bytes = stride,
          .most_bytes = slots_touch ? plan.longest_bytes : stride,
          .gap_bytes = slots_touch ? plan.gap_bytes : 0};
}

Result<std::vector<planner::TokenUse>> ReplayUses(
    const UnitUses& uses, std::string_view policy,
    const std::vector<uint32_t>& capacity, const ReadShape& shape) {
  std::vector<residency::LayerExtent> extents;
  for (size_t l = 0; l < uses.num_units.size(); ++l) {
    extents.push_back({.num_units = uses.num_units[l],
                       .capacity = std::min(capacity[l], uses.num_units[l]),
                       .frequency = uses.frequency[l]});
  }
  TC_ASSIGN_OR_RETURN(const std::unique_ptr<residency::Policy> cache,
                      residency::MakePolicy(policy, extents));
  residency::Replayer replayer(cache.get(), extents);
  std::vector<planner::TokenUse> of_tokens;
  std::vector<uint32_t> missed;
  for (size_t t = 0; t < uses.tokens.size(); ++t) {
    planner::TokenUse of_layers;
    for (size_t l = 0; l < extents.size(); ++l) {
      planner::LayerUse& use = of_layers.emplace_back();
      const std::vector<uint32_t>& units = uses.tokens[t][l];
      use.num_used = static_cast<uint32_t>(units.size());
      missed.clear();
      for (const uint32_t unit : units) {
        if (!cache->IsResident(l, unit)) missed.push_back(unit);
      }
      AddReads(missed, shape, use);
    }
    replayer.Add(uses.tokens[t]);
    if (t >= uses.num_warm) of_tokens.push_back(std::move(of_layers));
  }
  return of_tokens;
}

}  // namespace thermocline::cli
