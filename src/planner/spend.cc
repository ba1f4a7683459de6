#include "planner/spend.h"

#include <queue>

namespace thermocline::planner {
namespace {

// A step that takes bytes and saves seconds: a part, or a layer's count.
struct Purchase {
  double worth = 0.0;  // seconds per byte
  bool is_part = false;
  size_t idx = 0;  // part or layer
  size_t to = 0;   // count

  bool operator<(const Purchase& other) const {
    if (worth != other.worth) return worth < other.worth;
    if (is_part != other.is_part) return is_part < other.is_part;
    return idx > other.idx;
  }
};

// Spends what a state leaves, the best purchase first.
class Spender {
 public:
  Spender(const std::vector<OpenPart>& parts,
          const std::vector<FfnCurve>& curves, uint64_t budget, State& state)
      : parts_(parts), curves_(curves), budget_(budget), state_(state) {}

  void Spend() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!state_.choices.there[i] && !state_.choices.barred[i]) {
        queue_.push({.worth = parts_[i].worth(), .is_part = true, .idx = i});
      }
    }
    for (size_t i = 0; i < curves_.size(); ++i) {
      if (!state_.choices.without[i]) Offer(i);
    }
    while (!queue_.empty()) {
      const Purchase purchase = queue_.top();
      queue_.pop();
      if (purchase.is_part) {
        BuyPart(purchase.idx);
      } else {
        BuyItems(purchase);
      }
    }
  }

 private:
  uint64_t left() const { return budget_ - state_.bytes; }

  void BuyPart(size_t idx) {
    const uint64_t bytes = parts_[idx].whole.bytes();
    if (bytes > left()) return;
    state_.choices.there[idx] = true;
    state_.bytes += bytes;
    state_.seconds -= parts_[idx].saved;
  }

  void BuyItems(const Purchase& purchase) {
    const FfnCurve& curve = curves_[purchase.idx];
    size_t& count = state_.counts[purchase.idx];
    const uint64_t bytes = curve.Bytes(purchase.to) - curve.Bytes(count);
    if (bytes > left()) return OfferFitting(purchase.idx);
    state_.bytes += bytes;
    state_.seconds += curve.Seconds(purchase.to) - curve.Seconds(count);
    count = purchase.to;
    Offer(purchase.idx);
  }

  void Offer(size_t layer_idx) {
    const FfnCurve& curve = curves_[layer_idx];
    const size_t count = state_.counts[layer_idx];
    if (count >= curve.turn()) return;
    Push(layer_idx, count == 0 ? curve.BestFirst() : count + 1);
  }

  // What is left no longer holds what was offered.
  void OfferFitting(size_t layer_idx) {
    const FfnCurve& curve = curves_[layer_idx];
    const size_t count = state_.counts[layer_idx];
    Push(layer_idx, curve.MostWithin(curve.Bytes(count) + left(), count));
  }

  void Push(size_t layer_idx, size_t to) {
    const FfnCurve& curve = curves_[layer_idx];
    const size_t count = state_.counts[layer_idx];
    if (to <= count) return;
    const double saved = curve.Seconds(count) - curve.Seconds(to);
    const uint64_t bytes = curve.Bytes(to) - curve.Bytes(count);
    if (saved <= 0.0) return;
    queue_.push({.worth = saved / std::max(static_cast<double>(bytes), 1.0),
                 .idx = layer_idx,
                 .to = to});
  }

  const std::vector<OpenPart>& parts_;
  const std::vector<FfnCurve>& curves_;
  uint64_t budget_;
  State& state_;
  std::priority_queue<Purchase> queue_;
};

}  // namespace

void SpendRest(const std::vector<OpenPart>& parts,
               const std::vector<FfnCurve>& curves, uint64_t budget,
               State& state) {
  Spender(parts, curves, budget, state).Spend();
}

}  // namespace thermocline::planner
