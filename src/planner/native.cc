#include "planner/native.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "planner/cost.h"
#include "planner/ffn_curve.h"
#include "planner/parts.h"
#include "planner/spend.h"

namespace thermocline::planner {
namespace {

// Prices are halved until they are as near as doubles tell.
constexpr int kNumHalvings = 60;
// How many parts more and fewer than the price says are tried.
constexpr size_t kNumTriedParts = 3;
// Where the gap stays above this, choices are changed one and two at a time:
// of parts and of FFNs so many, those whose worth is nearest to the price.
constexpr double kSmallGap = 1e-3;
constexpr size_t kNumChangedParts = 12;
constexpr size_t kNumChangedFfns = 8;
constexpr int kNumChanges = 8;  // rounds

class NativeSolver {
 public:
  NativeSolver(const Problem& problem, Placement demanded)
      : problem_(problem), demanded_(std::move(demanded)) {}

  Solution Solve() {
    Prepare();
    State best = Free();
    double price = 0.0;
    if (best.bytes > problem_.budget) {
      price = FindPrice();
      best = BestAround(price);
    }
    const double bound = BoundAt(price);
    if (price > 0.0) Improve(price, bound, best);
    Solution solution;
    solution.placement = PlacementOf(best);
    solution.seconds = PredictCost(problem_, solution.placement).seconds;
    solution.bound_seconds = std::min(bound, solution.seconds);
    return solution;
  }

 private:
  void Prepare();
  // What costs least if memory costs nothing.
  State Free() const { return At(0.0); }
  State At(double price) const;
  State With(Choices choices) const;
  void MakeRoom(std::span<const size_t> kept, Choices& choices) const;
  State BestAround(double price) const;
  void Improve(double price, double bound, State& best) const;
  bool TryChanges(const std::vector<size_t>& open, State& best) const;
  std::vector<size_t> NearestTo(double price) const;
  double FindPrice() const;
  void Spend(State& state) const;
  void Measure(State& state) const;
  double BoundAt(double price) const;
  Placement PlacementOf(const State& state) const;

  // The lowest price at which what `at` gives fits.
  template <typename At>
  double LeastPrice(At at) const;

  const Problem& problem_;
  Placement demanded_;
  std::vector<OpenPart> parts_;  // the most worth first
  std::vector<FfnCurve> curves_;
  // Of parts whose place is settled, and of open ones on the host.
  double base_seconds_ = 0.0;
  uint64_t base_bytes_ = 0;
};

void NativeSolver::Prepare() {
  const Hardware& hardware = problem_.hardware;
  base_seconds_ = problem_.fixed_seconds;
  for (const WholePart& whole : PartsOf(problem_)) {
    const bool is_there = whole.part->rule == Rule::kDevice;
    base_seconds_ += PartSeconds(hardware, is_there, *whole.part);
    if (is_there) base_bytes_ += whole.bytes();
    if (whole.part->rule != Rule::kOpen) continue;
    const double saved = PartSeconds(hardware, false, *whole.part) -
                         PartSeconds(hardware, true, *whole.part);
    if (saved <= 0.0) continue;
    parts_.push_back({whole, static_cast<double>(whole.bytes()), saved});
  }
  std::ranges::sort(parts_, [](const OpenPart& a, const OpenPart& b) {
    if (a.worth() != b.worth()) return a.worth() > b.worth();
    if (a.whole.kind != b.whole.kind) return a.whole.kind < b.whole.kind;
    return a.whole.layer_idx > b.whole.layer_idx;
  });
  curves_.reserve(problem_.layers.size());
  for (const Layer& layer : problem_.layers) {
    curves_.emplace_back(hardware, layer);
  }
}

void NativeSolver::Measure(State& state) const {
  state.bytes = base_bytes_;
  state.seconds = base_seconds_;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!state.choices.there[i]) continue;
    state.bytes += parts_[i].whole.bytes();
    state.seconds -= parts_[i].saved;
  }
  for (size_t i = 0; i < curves_.size(); ++i) {
    state.bytes += curves_[i].Bytes(state.counts[i]);
    state.seconds += curves_[i].Seconds(state.counts[i]);
  }
}

State NativeSolver::At(double price) const {
  State state;
  state.choices.barred.resize(parts_.size());
  state.choices.without.resize(curves_.size());
  for (const OpenPart& part : parts_) {
    state.choices.there.push_back(part.saved > price * part.bytes);
  }
  for (const FfnCurve& curve : curves_) {
    state.counts.push_back(curve.BestAt(price, curve.most()));
  }
  Measure(state);
  return state;
}

template <typename At>
double NativeSolver::LeastPrice(At at) const {
  double high = 1e-18;
  while (at(high) > problem_.budget && high < 1e18) high *= 2.0;
  double low = 0.0;
  for (int i = 0; i < kNumHalvings; ++i) {
    const double middle = low + (high - low) / 2.0;
    (at(middle) > problem_.budget ? low : high) = middle;
  }
  return high;
}

double NativeSolver::FindPrice() const {
  return LeastPrice([this](double price) { return At(price).bytes; });
}

// The best of these choices and whatever of the FFNs fits beside them; more
// than the budget, if the parts alone are.
State NativeSolver::With(Choices choices) const {
  State state;
  state.choices = std::move(choices);
  const auto at = [&](double price) {
    state.counts.clear();
    for (size_t i = 0; i < curves_.size(); ++i) {
      const size_t most = state.choices.without[i] ? 0 : curves_[i].most();
      state.counts.push_back(curves_[i].BestAt(price, most));
    }
    Measure(state);
    return state.bytes;
  };
  at(LeastPrice(at));
  if (state.bytes <= problem_.budget) Spend(state);
  return state;
}

// At the price everything fits that is worth more; what is worth exactly as
// much does not, and a large part may be left out where it would have been
// worth its place.
State NativeSolver::BestAround(double price) const {
  State best = At(price);
  Spend(best);
  const auto at_price = static_cast<size_t>(std::ranges::count_if(
      parts_,
      [&](const OpenPart& part) { return part.saved > price * part.bytes; }));
  const size_t from = at_price - std::min(at_price, kNumTriedParts);
  const size_t to = std::min(at_price + kNumTriedParts, parts_.size());
  for (size_t count = from; count <= to; ++count) {
    Choices choices = best.choices;
    std::fill_n(choices.there.begin(), count, true);
    std::fill(choices.there.begin() + static_cast<ptrdiff_t>(count),
              choices.there.end(), false);
    const State state = With(std::move(choices));
    if (state.bytes <= problem_.budget && state.seconds < best.seconds) {
      best = state;
    }
  }
  return best;
}

// Parts, and behind them FFNs, whose choice is least clear.
std::vector<size_t> NativeSolver::NearestTo(double price) const {
  const auto nearest = [&](size_t count, size_t most, auto worth) {
    std::vector<std::pair<double, size_t>> by_distance;
    for (size_t i = 0; i < count; ++i) {
      if (worth(i) <= 0.0) continue;
      by_distance.emplace_back(std::abs(std::log(worth(i) / price)), i);
    }
    std::ranges::sort(by_distance);
    by_distance.resize(std::min(by_distance.size(), most));
    return by_distance;
  };
  std::vector<size_t> open;
  for (const auto& [distance, part] :
       nearest(parts_.size(), kNumChangedParts,
               [&](size_t i) { return parts_[i].worth(); })) {
    open.push_back(part);
  }
  for (const auto& [distance, layer] :
       nearest(curves_.size(), kNumChangedFfns,
               [&](size_t i) { return curves_[i].FirstWorth(); })) {
    open.push_back(parts_.size() + layer);
  }
  return open;
}

// Takes out parts, the least worth first but for those kept, until the others
// fit.
void NativeSolver::MakeRoom(std::span<const size_t> kept,
                            Choices& choices) const {
  uint64_t bytes = base_bytes_;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (choices.there[i]) bytes += parts_[i].whole.bytes();
  }
  for (size_t i = parts_.size(); i-- > 0 && bytes > problem_.budget;) {
    if (!choices.there[i] || std::ranges::count(kept, i) > 0) continue;
    choices.there[i] = false;
    bytes -= parts_[i].whole.bytes();
  }
}

void NativeSolver::Improve(double price, double bound, State& best) const {
  const std::vector<size_t> open = NearestTo(price);
  for (int i = 0; i < kNumChanges; ++i) {
    if (best.seconds - bound <= kSmallGap * best.seconds) return;
    if (!TryChanges(open, best)) return;
  }
}

// The best of all changes of one or two choices, if it is better.
bool NativeSolver::TryChanges(const std::vector<size_t>& open,
                              State& best) const {
  const State before = best;
  const auto change = [&](size_t idx, Choices& choices) {
    if (idx < parts_.size()) {
      // Or what it leaves would buy it again.
      choices.barred[idx] = choices.there[idx];
      choices.there[idx] = !choices.there[idx];
    } else {
      const size_t layer = idx - parts_.size();
      choices.without[layer] = !choices.without[layer];
    }
  };
  for (size_t a = 0; a < open.size(); ++a) {
    for (size_t b = a; b < open.size(); ++b) {
      Choices choices = before.choices;
      change(open[a], choices);
      if (b != a) change(open[b], choices);
      MakeRoom(std::array{open[a], open[b]}, choices);
      State state = With(std::move(choices));
      if (state.bytes > problem_.budget || state.seconds >= best.seconds) {
        continue;
      }
      best = std::move(state);
    }
  }
  best.choices.barred.assign(parts_.size(), false);
  return best.seconds < before.seconds;
}

void NativeSolver::Spend(State& state) const {
  SpendRest(parts_, curves_, problem_.budget, state);
}

// What everything would cost if memory could be bought and sold at this price.
double NativeSolver::BoundAt(double price) const {
  double seconds = base_seconds_;
  for (const OpenPart& part : parts_) {
    seconds += std::min(0.0, price * part.bytes - part.saved);
  }
  for (const FfnCurve& curve : curves_) seconds += curve.BoundAt(price);
  // Rounding of the sums, so that the bound stays one.
  return seconds * (1.0 - 1e-10) -
         price * static_cast<double>(problem_.budget - base_bytes_);
}

uint64_t PackedBytes(const Layer& layer, const std::vector<uint32_t>& experts) {
  uint64_t bytes = 0;
  for (const uint32_t expert : experts) {
    bytes += InPieces(layer.experts.experts[expert].bytes);
  }
  return bytes;
}

Placement NativeSolver::PlacementOf(const State& state) const {
  Placement placement = demanded_;
  uint64_t left = problem_.budget - state.bytes;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (state.choices.there[i]) Put(parts_[i].whole, placement);
  }
  for (size_t i = 0; i < curves_.size(); ++i) {
    LayerPlace& place = placement.layers[i];
    if (curves_[i].are_neurons()) {
      place.neurons = curves_[i].Items(state.counts[i]);
      continue;
    }
    // Of unlike sizes others may fill the same bytes better.
    const uint64_t bytes = curves_[i].Bytes(state.counts[i]);
    place.experts = curves_[i].PackedItems(state.counts[i], bytes + left);
    left -= PackedBytes(problem_.layers[i], place.experts) - bytes;
  }
  return placement;
}

}  // namespace

double Solution::gap() const {
  return seconds > 0.0 ? (seconds - bound_seconds) / seconds : 0.0;
}

Result<Solution> SolveNative(const Problem& problem) {
  const Stopwatch watch;
  TC_ASSIGN_OR_RETURN(Placement demanded, PlaceDemanded(problem));
  Solution solution = NativeSolver(problem, std::move(demanded)).Solve();
  solution.wall_seconds = watch.Seconds();
  return solution;
}

}  // namespace thermocline::planner
