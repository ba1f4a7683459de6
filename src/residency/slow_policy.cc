#include "residency/slow_policy.h"

#include <cmath>

#include "base/check.h"
#include "residency/layered_policy.h"
#include "residency/scored_residents.h"

namespace thermocline::residency {
namespace {

// Scores that all fade alike keep their order, so none is touched to fade:
// instead a use weighs more from pass to pass. When that has become much, all
// are scaled back.
constexpr float kMostWeight = 0x1p40f;

// A mean whose values count half after so many others. It begins with the
// first.
class FadingMean {
 public:
  explicit FadingMean(double half_life)
      : rate_(1.0 - std::exp2(-1.0 / half_life)) {}

  void Add(double value) {
    weight_ += (1.0 - weight_) * rate_;
    mean_ += (value - mean_) * rate_ / weight_;
  }
  double mean() const { return mean_; }

 private:
  double rate_;
  double weight_ = 0.0;  // of all values so far, that of endlessly many is 1
  double mean_ = 0.0;
};

// Notices from the share of used units that are resident that the text has
// become another. The share of a few uses is chance: passes are looked at
// together until they have kLeastUses, as some tokens of a mixture do. A pass
// that uses more than half of all units, as a prompt's does of experts, tells
// nothing of the text.
class ChangeDetector {
 public:
  // `change` as in SlowOptions.
  explicit ChangeDetector(double change) : change_(change) {}

  // Whether it looks like a change.
  bool Observe(const neuron::NeuronSet& used, const ResidentSet& residents) {
    const size_t num_used = used.Count();
    if (2 * num_used > used.num_neurons) return false;
    num_used_ += num_used;
    num_resident_ += residents.CountOf(used);
    if (num_used_ < kLeastUses) return is_changing_;
    const double share =
        static_cast<double>(num_resident_) / static_cast<double>(num_used_);
    num_used_ = num_resident_ = 0;
    recent_.Add(share);
    usual_.Add(share);
    is_changing_ = recent_.mean() < change_ * usual_.mean();
    return is_changing_;
  }

 private:
  static constexpr size_t kLeastUses = 32;

  size_t num_used_ = 0, num_resident_ = 0;  // since the last share
  bool is_changing_ = false;
  double change_;
  FadingMean recent_{2.0}, usual_{64.0};
};

class SlowLayer {
 public:
  SlowLayer(const LayerExtent& extent, const SlowOptions& options)
      : growth_(std::exp2(1.0 / options.half_life)),
        growth_changing_(std::exp2(1.0 / options.half_life_changing)),
        changes_(options.change),
        lead_(static_cast<float>(1.0 + options.margin)),
        scores_(extent.num_units, 0.0f),
        residents_(extent, &scores_),
        others_(extent.num_units),
        has_risen_(extent.num_units, false) {
    // What a unit used at this rate for ever has come to.
    const auto scale = static_cast<float>(1.0 / (1.0 - 1.0 / growth_));
    for (size_t i = 0; i < extent.frequency.size(); ++i) {
      scores_[i] = extent.frequency[i] * scale;
    }
    for (uint32_t unit = 0; unit < extent.num_units; ++unit) {
      others_.Push(unit, scores_[unit]);
    }
  }

  void Begin(uint32_t unit) {
    others_.Remove(unit);
    residents_.Begin(unit);
  }

  void Observe(const neuron::NeuronSet& used) {
    weight_ *=
        changes_.Observe(used, residents_.set()) ? growth_changing_ : growth_;
    if (weight_ > kMostWeight) ScaleBack();
    residents_.SetUsed(used);
    used.ForEachIn(0, used.num_neurons, [this](size_t i) {
      const auto unit = static_cast<uint32_t>(i);
      scores_[unit] += static_cast<float>(weight_);
      if (residents_.set().Has(unit) || has_risen_[unit]) return;
      has_risen_[unit] = true;
      risen_.push_back(unit);
    });
  }

  Policy::Answer Admit(uint32_t unit, const neuron::NeuronSet& pinned) {
    uint32_t leaves = kNobody;
    if (residents_.set().is_full()) {
      leaves = residents_.Worst(pinned);
      if (leaves == kNobody || !IsClearlyBetter(unit, leaves)) return {};
    }
    Move(unit, leaves);
    return {true, leaves};
  }

  std::vector<Policy::Move> Propose(size_t most) {
    RankRisen();
    std::vector<Policy::Move> moves;
    while (moves.size() < most && !others_.is_empty()) {
      const uint32_t unit = others_.first().unit;
      const Policy::Answer answer = Admit(unit, {});
      if (!answer.is_admitted) break;
      moves.push_back({unit, answer.leaves});
    }
    return moves;
  }

  void Drop(uint32_t unit) {
    residents_.Drop(unit);
    others_.Push(unit, scores_[unit]);
  }

  const ResidentSet& residents() const { return residents_.set(); }

 private:
  bool IsClearlyBetter(uint32_t unit, uint32_t than) const {
    return scores_[unit] > scores_[than] * lead_;
  }

  void Move(uint32_t unit, uint32_t leaves) {
    others_.Remove(unit);
    if (leaves != kNobody) {
      residents_.Remove(leaves);
      others_.Push(leaves, scores_[leaves]);
    }
    residents_.Add(unit);
  }

  // Where nobody asks for proposals, nobody has to be ranked.
  void RankRisen() {
    for (const uint32_t unit : risen_) {
      has_risen_[unit] = false;
      if (!residents_.set().Has(unit)) others_.Set(unit, scores_[unit]);
    }
    risen_.clear();
  }

  // A power of two: nothing is rounded but what is next to 0 anyway.
  void ScaleBack() {
    const auto scale = [](float score) { return score / kMostWeight; };
    for (float& score : scores_) score = scale(score);
    residents_.MapScores(scale);
    others_.MapKeys(scale);
    weight_ /= kMostWeight;
  }

  double growth_;  // of a use's weight, from pass to pass
  double growth_changing_;
  ChangeDetector changes_;
  float lead_;
  double weight_ = 1.0;
  std::vector<float> scores_;
  ScoredResidents<float> residents_;
  UnitHeap<float, GreatestFirst> others_;  // who is not resident
  std::vector<uint32_t> risen_;            // since others_ ranked them
  std::vector<bool> has_risen_;
};

}  // namespace

std::unique_ptr<Policy> MakeSlow(const std::vector<LayerExtent>& layers,
                                 const SlowOptions& options) {
  TC_CHECK(options.half_life >= 1.0 && options.margin >= 0.0);
  TC_CHECK(options.half_life_changing >= 1.0 && options.change >= 0.0 &&
           options.change <= 1.0);
  return std::make_unique<LayeredPolicy<SlowLayer>>(layers, options);
}

}  // namespace thermocline::residency
