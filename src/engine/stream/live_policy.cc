#include "engine/stream/live_policy.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "residency/move_cost.h"

namespace thermocline::engine {
namespace {

using residency::Bottleneck;
using residency::kNobody;

constexpr uint64_t kSlotsPerMove = 256;

// In the time of computing a unit: from a drive it takes many times as long,
// and attention as long as some hundred of them.
constexpr residency::MoveRates kFixedRates = {
    .per_hit = 1.0, .per_miss = 10.0, .per_move = 10.0, .other = 200.0};

Bottleneck LongerOf(const RunTimes& times) {
  if (times.for_moves <= 0.0 && times.for_misses <= 0.0) {
    return Bottleneck::kNothing;
  }
  return times.for_moves > times.for_misses ? Bottleneck::kMoves
                                            : Bottleneck::kMisses;
}

void Erase(std::vector<uint64_t>& words, uint32_t unit) {
  words[unit / 64] &= ~(uint64_t{1} << unit % 64);
}

bool HasUnit(const std::vector<uint64_t>& words, uint32_t unit) {
  return (words[unit / 64] >> unit % 64 & 1) != 0;
}

}  // namespace

uint64_t FixedMovesPerToken(const std::vector<residency::LayerExtent>& layers) {
  uint64_t num_slots = 0;
  for (const residency::LayerExtent& layer : layers) {
    num_slots += std::min(layer.capacity, layer.num_units);
  }
  return std::max<uint64_t>(num_slots / kSlotsPerMove, 1);
}

Bottleneck FixedBottleneck(const residency::PassCounts& counts) {
  return residency::BottleneckOf(kFixedRates, counts);
}

residency::ReplayOptions ReplayOptionsFor(uint64_t moves_per_token) {
  return {.misses = residency::Misses::kRead,
          .moves_per_token = moves_per_token,
          .bottleneck = FixedBottleneck};
}

LivePolicy::LivePolicy(std::unique_ptr<residency::Policy> policy,
                       std::vector<residency::LayerExtent> layers,
                       const LiveOptions& options,
                       StreamTotals::OfPhase* counts)
    : policy_(std::move(policy)),
      options_(options),
      extents_(std::move(layers)),
      budget_(extents_.size()),
      moves_per_token_(
          options.moves_per_token.value_or(FixedMovesPerToken(extents_))),
      counts_(*counts) {
  for (residency::LayerExtent& extent : extents_) {
    extent.frequency = {};  // somebody else's, and gone
    Layer& layer = layers_.emplace_back();
    layer.extent = extent;
    layer.residents.resize(neuron::WordsOf(extent.num_units));
    layer.unproven.resize(neuron::WordsOf(extent.num_units));
  }
}

std::vector<uint32_t> LivePolicy::Initial(size_t layer_idx) {
  std::vector<uint32_t> units = policy_->Initial(layer_idx);
  for (const uint32_t unit : units) residents(layer_idx).Add(unit);
  return units;
}

void LivePolicy::BeginRun() {
  if (!is_deterministic()) budget_.BeginRun(Now());
}

void LivePolicy::Observe(size_t layer_idx, const neuron::NeuronSet& used) {
  if (rests_) return;
  Layer& layer = layers_[layer_idx];
  const size_t num_hits = used.CountIn(residents(layer_idx));
  layer.last = {.layer_idx = layer_idx,
                .hits = static_cast<uint32_t>(num_hits),
                .misses = static_cast<uint32_t>(used.Count() - num_hits)};
  counts_.num_hits += num_hits;
  for (size_t i = 0; i < layer.unproven.size(); ++i) {
    layer.unproven[i] &= ~used.words[i];
  }
  policy_->Observe(layer_idx, used);
}

void LivePolicy::ObserveAllResident(uint64_t num_used) {
  if (!rests_) counts_.num_hits += num_used;
}

LivePolicy::Answer LivePolicy::Admit(size_t layer_idx, uint32_t unit,
                                     const neuron::NeuronSet& pinned) {
  if (rests_) return {};
  const Answer answer = policy_->Admit(layer_idx, unit, pinned);
  if (!answer.is_admitted) return answer;
  Enter(layers_[layer_idx], unit, answer.leaves);
  ++counts_.num_admissions;
  return answer;
}

void LivePolicy::EndRun(size_t layer_idx, const RunTimes& times) {
  if (rests_ || is_deterministic()) return;
  layers_[layer_idx].waited = LongerOf(times);
  budget_.EndRun(layer_idx, Now(), times.read_bytes, times.read_seconds,
                 times.is_idle);
}

// Of a fixed number layers have equal shares, and what one leaves is the next
// one's.
uint64_t LivePolicy::MostMoves(size_t layer_idx, bool is_late) {
  if (!has_fixed_moves()) {
    return is_late ? 0 : budget_.Take(layer_idx, options_.unit_bytes);
  }
  const uint64_t so_far = moves_per_token_ * (layer_idx + 1) / layers_.size();
  return so_far - std::min(so_far, num_moves_of_pass_);
}

std::vector<LivePolicy::Move> LivePolicy::Propose(size_t layer_idx,
                                                  bool is_late) {
  if (rests_) return {};
  const uint64_t most = MostMoves(layer_idx, is_late);
  std::vector<Move> moves;
  if (most > 0) moves = policy_->Propose(layer_idx, most);
  TC_CHECK(moves.size() <= most);
  if (!has_fixed_moves()) {
    budget_.GiveBack((most - moves.size()) * options_.unit_bytes);
  }
  num_moves_of_pass_ += moves.size();
  Layer& layer = layers_[layer_idx];
  for (const Move& move : moves) Enter(layer, move.unit, move.leaves);
  layer.last.moves += static_cast<uint32_t>(moves.size());
  counts_.num_moves += moves.size();
  policy_->Tell(layer_idx, is_deterministic() ? FixedBottleneck(layer.last)
                                              : layer.waited);
  return moves;
}

void LivePolicy::Drop(size_t layer_idx, uint32_t unit) {
  policy_->Drop(layer_idx, unit);
  Leave(layers_[layer_idx], unit);
}

void LivePolicy::EndPass() { num_moves_of_pass_ = 0; }

void LivePolicy::Enter(Layer& layer, uint32_t unit, uint32_t leaves) {
  if (leaves != kNobody) Leave(layer, leaves);
  layer.residents[unit / 64] |= uint64_t{1} << unit % 64;
  layer.unproven[unit / 64] |= uint64_t{1} << unit % 64;
}

void LivePolicy::Leave(Layer& layer, uint32_t unit) {
  Erase(layer.residents, unit);
  if (!HasUnit(layer.unproven, unit)) return;
  ++counts_.num_wasted;
  Erase(layer.unproven, unit);
}

}  // namespace thermocline::engine
