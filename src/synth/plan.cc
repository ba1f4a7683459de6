#include "synth/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quote.h"
#include "synth/activity.h"
#include "synth/codes.h"
#include "synth/experts.h"
#include "synth/math.h"

namespace thermocline::synth {
namespace {

constexpr uint64_t kMinDirections = 32;   // sums of fewer are not normal
constexpr uint64_t kMaxDirections = 128;  // more of them change nothing
constexpr uint64_t kMinBasisWidth = 128;
constexpr uint64_t kRankStep = 32;  // a block
// A router's own.
constexpr uint64_t kRouterDirections = 64;
constexpr size_t kLearnedFrequencies = 16;
constexpr double kFastestLearned = 0.6;

bool BlocksDivide(DType dtype, const SynthShape& shape) {
  const uint64_t block = InfoOf(dtype).block_elems;
  return shape.width % block == 0 && shape.ffn_width % block == 0 &&
         shape.attention_width() % block == 0;
}

// Types whose blocks divide both the width and the FFN's width.
std::string TypesFor(const SynthShape& shape) {
  std::string names;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0,
                            DType::kQ4_0, DType::kQ4_K, DType::kQ6_K}) {
    if (!BlocksDivide(dtype, shape)) continue;
    names += names.empty() ? "" : ", ";
    names += NameOf(dtype);
  }
  return names;
}

double BytesPerElem(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  return static_cast<double>(info.block_bytes) / info.block_elems;
}

// The largest rank whose matrices [R, D] and [F, R] take the predictor's share.
uint64_t RankWithin(const SynthPlan& plan, DType dtype) {
  const SynthShape& shape = plan.shape;
  const double bytes_per_rank =
      static_cast<double>(shape.width + shape.ffn_width) * BytesPerElem(dtype);
  const auto rank = static_cast<uint64_t>(
      kPredictorShare * static_cast<double>(plan.ffn_bytes) / bytes_per_rank);
  return rank / kRankStep * kRankStep;
}

Status CheckOptions(const SynthOptions& options) {
  if (!CanSynthesize(options.dtype)) {
    return Fail(ErrorCode::kInvalidArgument,
                "synthetic models are not made in {}; f32, f16, q8_0, q4_0, "
                "q4_k and q6_k are possible",
                NameOf(options.dtype));
  }
  const SynthShape* shape = FindSynthShape(options.like);
  if (shape == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                "no model {} to make one like; there are {}",
                Quote(options.like), ListSynthShapes());
  }
  if (options.num_layers &&
      (*options.num_layers < 1 || *options.num_layers > shape->num_layers)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} layers of {} are not possible; it has {}",
                *options.num_layers, options.like, shape->num_layers);
  }
  if (options.num_topics < 1 || options.num_topics > kMaxSynthTopics) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} topics are not possible; 1 to {} are", options.num_topics,
                kMaxSynthTopics);
  }
  if (shape->num_experts == 0 &&
      (options.expert_skew || options.expert_locality)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} has no experts whose skew or locality could be chosen",
                options.like);
  }
  return {};
}

// Half of what a rank leaves behind the rows of constants.
uint64_t HalfBehind(uint64_t rank, uint64_t num_rows) {
  return rank < num_rows ? 0 : (rank - num_rows) / 2;
}

// In the last KV heads.
void PlanRouterDirections(SynthPlan& plan) {
  if (!plan.options.expert_locality) return;
  const SynthShape& shape = plan.shape;
  plan.router.num_directions = kRouterDirections;
  plan.router.first_kv_head =
      shape.num_kv_heads -
      (kRouterDirections + shape.head_width() - 1) / shape.head_width();
}

Status PlanDimensions(SynthPlan& plan) {
  const SynthShape& shape = plan.shape;
  const DTypeInfo& info = InfoOf(plan.options.dtype);
  const uint64_t block = std::max(info.block_elems, uint32_t{32});
  if (!BlocksDivide(plan.options.dtype, shape)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} is {} wide and its FFNs are {}: the blocks of {} of {} do "
                "not divide that; those of {} do",
                shape.name, shape.width, shape.ffn_width, info.block_elems,
                info.name, TypesFor(shape));
  }
  const bool learned = shape.arch().learned_positions;
  plan.constant_width = block;
  plan.position_width = learned ? block : 0;
  if (shape.width < plan.basis_begin() + kMinBasisWidth) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} is {} wide: too narrow for the blocks of {} of {}{}",
                shape.name, shape.width, info.block_elems, info.name,
                plan.options.num_topics > 1
                    ? fmt::format(", one for each of {} topics",
                                  plan.options.num_topics)
                    : "");
  }
  plan.ffn_bytes = BytesOf(plan.options.dtype, shape.width * shape.ffn_width) *
                   shape.parts_per_neuron();
  plan.rank = RankWithin(plan, DType::kQ8_0);
  plan.powerinfer_rank = RankWithin(plan, plan.options.dtype);
  PlanRouterDirections(plan);
  const uint64_t free_kv_width =
      plan.router.num_directions > 0
          ? plan.router.first_kv_head * shape.head_width()
          : shape.kv_width();
  const uint64_t constant_rows = kRowsPerConstant * plan.options.num_topics;
  const uint64_t most =
      std::min({kMaxDirections, free_kv_width, plan.basis_width() / 2,
                HalfBehind(plan.rank, constant_rows),
                HalfBehind(plan.powerinfer_rank, constant_rows)});
  plan.num_directions = std::max(kMinDirections, most / 16 * 16);
  plan.rank = std::max(plan.rank, plan.needed_rank());
  plan.powerinfer_rank = std::max(plan.powerinfer_rank, plan.needed_rank());
  plan.predictor_bytes =
      BytesOf(DType::kQ8_0, plan.rank * (shape.width + shape.ffn_width));
  return {};
}

Status PlanActivity(SynthPlan& plan) {
  const SynthOptions& options = plan.options;
  TC_ASSIGN_OR_RETURN(plan.shares, SolveShares(plan.shape.ffn_width,
                                               options.density, options.skew));
  TC_ASSIGN_OR_RETURN(plan.correlation,
                      SolveCorrelation(plan.shares, options.locality));
  for (const double share : plan.shares) {
    plan.thresholds.push_back(NormalThreshold(share));
  }
  for (const double share : CandidateShares(plan.shares, kCandidateRatio)) {
    plan.candidate_thresholds.push_back(NormalThreshold(share));
  }
  return {};
}

Status PlanRouter(SynthPlan& plan) {
  const SynthOptions& options = plan.options;
  const SynthShape& shape = plan.shape;
  if (options.expert_skew) {
    TC_ASSIGN_OR_RETURN(plan.router.biases,
                        SolveExpertBiases(shape.num_experts, shape.experts_used,
                                          *options.expert_skew));
    plan.router.shares = ExpertShares(plan.router.biases, shape.experts_used);
  }
  if (!options.expert_locality) return {};
  const std::vector<double> even(shape.num_experts);
  TC_ASSIGN_OR_RETURN(
      const double correlation,
      SolveExpertCorrelation(options.expert_skew ? plan.router.biases : even,
                             shape.experts_used, *options.expert_locality));
  plan.router.window = SolveWindow(plan.frequencies, correlation);
  return {};
}

// Those that the positions turn with: RoPE's pairs, or what is put into the
// learned table, which fades as a window of the correlation needs.
void PlanWindow(SynthPlan& plan) {
  const uint64_t num_pairs = plan.shape.rope_width() / 2;
  if (!plan.has_positions()) {
    const double log_base = StableLog(plan.shape.rope_base);
    for (uint64_t i = 0; i < num_pairs; ++i) {
      plan.frequencies.push_back(StableExp(-log_base * static_cast<double>(i) /
                                           static_cast<double>(num_pairs)));
    }
    plan.window = SolveWindow(plan.frequencies, plan.correlation);
    return;
  }
  // As many as the table has, from faster to slower ones.
  std::vector<double> offered;
  for (size_t i = 0; i < 4 * kLearnedFrequencies; ++i) {
    offered.push_back(kFastestLearned *
                      StableExp(-static_cast<double>(i) * StableLog(1.25)));
  }
  Window window = SolveWindow(offered, plan.correlation);
  const auto first =
      offered.begin() + static_cast<std::ptrdiff_t>(window.first_frequency);
  plan.frequencies.assign(
      first, first + static_cast<std::ptrdiff_t>(window.num_frequencies));
  window.first_frequency = 0;
  plan.window = window;
}

void PlanScales(SynthPlan& plan) {
  plan.sign_gain = SignGain(plan.options.dtype);
  const auto basis = static_cast<double>(plan.basis_width());
  // An angle's cosine and sine are two dimensions of the position.
  const double fixed =
      static_cast<double>(plan.constant_width) * plan.sign_gain +
      (plan.has_positions() ? static_cast<double>(plan.frequencies.size())
                            : 0.0);
  const double gain = plan.window.token_gain;
  // A router's own directions add what the neurons' do.
  const bool has_own = plan.router.num_directions > 0;
  const double own_gain = has_own ? plan.router.window.token_gain : 0.0;
  const double own = has_own ? 1.0 : 0.0;
  const auto width = static_cast<double>(plan.shape.width);
  plan.embedding_rms =
      plan.scale *
      std::sqrt((fixed + (gain * gain + own_gain * own_gain) * basis) / width);
  plan.stream_rms =
      plan.scale * std::sqrt((fixed + (1.0 + own) * basis) / width);
}

}  // namespace

std::string SynthPlan::Describe() const {
  std::string text =
      fmt::format("density {}, skew {}, locality {}", options.density,
                  options.skew, options.locality);
  if (options.expert_skew) {
    text += fmt::format(", expert skew {}", *options.expert_skew);
  }
  if (options.expert_locality) {
    text += fmt::format(", expert locality {}", *options.expert_locality);
  }
  if (options.num_topics > 1) {
    text += fmt::format(", {} topics", options.num_topics);
  }
  return text + fmt::format(", seed {}", options.seed);
}

Result<SynthPlan> PlanSynth(const SynthOptions& options) {
  TC_RETURN_IF_ERROR(CheckOptions(options));
  SynthPlan plan;
  plan.shape = *FindSynthShape(options.like);
  plan.options = options;
  plan.num_layers = options.num_layers.value_or(plan.shape.num_layers);
  TC_RETURN_IF_ERROR(PlanDimensions(plan));
  TC_RETURN_IF_ERROR(PlanActivity(plan));
  PlanWindow(plan);
  TC_RETURN_IF_ERROR(PlanRouter(plan));
  PlanScales(plan);
  return plan;
}

Random RandomFor(uint64_t seed, SynthPart part, uint64_t place, uint64_t row) {
  uint64_t state = seed;
  for (const uint64_t key : {static_cast<uint64_t>(part), place, row}) {
    state = Random(state ^ (key + 1) * 0xd1342543de82ef95u).Next();
  }
  return Random(state);
}

}  // namespace thermocline::synth
