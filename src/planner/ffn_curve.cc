#include "planner/ffn_curve.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "planner/cost.h"

namespace thermocline::planner {
namespace {

// Of neurons, which are all of a size: by their frequency. Keys of one word
// each sort several times faster than indices that look theirs up.
std::vector<uint32_t> RankNeurons(const Neurons& neurons) {
  std::vector<uint64_t> keys(neurons.count());
  for (size_t i = 0; i < keys.size(); ++i) {
    // Floats that are not negative compare as their bits do.
    const auto bits = std::bit_cast<uint32_t>(neurons.frequency[i] + 0.0f);
    keys[i] = uint64_t{~bits} << 32 | i;
  }
  std::ranges::sort(keys);
  std::vector<uint32_t> order(keys.size());
  std::ranges::transform(keys, order.begin(), [](uint64_t key) {
    return static_cast<uint32_t>(key);
  });
  return order;
}

double WorthOf(const Expert& expert) {
  const auto bytes = static_cast<double>(InPieces(expert.bytes));
  return static_cast<double>(expert.frequency) * expert.host_read /
         std::max(bytes, 1.0);
}

}  // namespace

std::vector<uint32_t> RankItems(const Layer& layer) {
  const std::vector<Expert>& experts = layer.experts.experts;
  if (experts.empty()) return RankNeurons(layer.neurons);
  std::vector<uint32_t> order(experts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    const double worth = WorthOf(experts[a]), other = WorthOf(experts[b]);
    return worth != other ? worth > other : a < b;
  });
  return order;
}

FfnCurve::FfnCurve(const Hardware& hardware, const Layer& layer)
    : hardware_(hardware),
      neurons_(layer.neurons),
      are_neurons_(layer.experts.experts.empty()),
      order_(RankItems(layer)) {
  const size_t count = order_.size();
  device_.resize(count + 1);
  host_.resize(count + 1);
  bytes_.resize(count + 1);
  for (size_t i = count; i-- > 0;) {
    double host = 0.0;
    if (are_neurons_) {
      host = neurons_.Expected(neurons_.host, neurons_.frequency[order_[i]]);
    } else {
      const Expert& expert = layer.experts.experts[order_[i]];
      host = static_cast<double>(expert.frequency) * expert.host_read;
    }
    host_[i] = host_[i + 1] + host;
  }
  for (size_t i = 0; i < count; ++i) {
    if (are_neurons_) {
      device_[i + 1] =
          device_[i] +
          neurons_.Expected(neurons_.device, neurons_.frequency[order_[i]]);
      bytes_[i + 1] = NeuronBytes(neurons_, i + 1);
    } else {
      const Expert& expert = layer.experts.experts[order_[i]];
      device_[i + 1] = device_[i] + static_cast<double>(expert.frequency) *
                                        expert.device_read;
      bytes_[i + 1] = bytes_[i] + InPieces(expert.bytes);
    }
  }
  const Rule rule = are_neurons_ ? neurons_.rule : layer.experts.rule;
  most_ = rule == Rule::kHost ? 0 : count;
  least_ = rule == Rule::kDevice ? count : 0;
  FindTurn();
  FindBestFirst();
}

double FfnCurve::SizeOf(size_t item) const {
  return are_neurons_ ? static_cast<double>(neurons_.record_bytes)
                      : static_cast<double>(bytes_[item + 1] - bytes_[item]);
}

double FfnCurve::Seconds(size_t count) const {
  return FfnSeconds(hardware_, count > 0, device_[count], host_[count],
                    neurons_.host_lead_seconds);
}

void FfnCurve::FindTurn() {
  const auto is_before = [&](size_t count) {
    return device_[count] / hardware_.device_rate + hardware_.launch_seconds <
           host_[count] / hardware_.host_rate + neurons_.host_lead_seconds;
  };
  size_t low = 0, high = most_;
  while (low < high) {
    const size_t middle = std::midpoint(low, high);
    if (is_before(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  turn_ = std::max(low, std::min<size_t>(most_, 1));
}

void FfnCurve::FindBestFirst() {
  const double none = Seconds(0);
  double best = 0.0;
  for (size_t i = 1; i <= turn_; ++i) {
    const double saved =
        (none - Seconds(i)) / std::max(static_cast<double>(bytes_[i]), 1.0);
    if (saved <= best) continue;
    best = saved;
    best_first_ = i;
  }
}

double FfnCurve::FirstWorth() const {
  if (best_first_ == 0) return 0.0;
  return (Seconds(0) - Seconds(best_first_)) /
         std::max(static_cast<double>(bytes_[best_first_]), 1.0);
}

size_t FfnCurve::BestAt(double price, size_t most) const {
  if (least_ > 0) return least_;
  size_t low = 0, high = std::min(most, turn_);
  // Items before `low` are worth their bytes.
  while (low < high) {
    const size_t middle = std::midpoint(low, high);
    if (HostOf(middle) / hardware_.host_rate > price * SizeOf(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  size_t best = 0;
  double least = Seconds(0);
  for (const size_t count : {low > 0 ? low - 1 : 0, low}) {
    const double cost =
        Seconds(count) + price * static_cast<double>(bytes_[count]);
    if (count == 0 || cost >= least) continue;
    least = cost;
    best = count;
  }
  return best;
}

size_t FfnCurve::MostWithin(uint64_t bytes, size_t from) const {
  const auto begin = bytes_.begin() + static_cast<ptrdiff_t>(from) + 1;
  const auto end = bytes_.begin() + static_cast<ptrdiff_t>(turn_) + 1;
  if (from >= turn_) return from;
  return from +
         static_cast<size_t>(std::upper_bound(begin, end, bytes) - begin);
}

FfnCurve::Weighed FfnCurve::Weigh(double share, double price) const {
  Weighed weighed;
  const double there = 1.0 / hardware_.device_rate;
  const double here = 1.0 / hardware_.host_rate;
  for (size_t i = 0; i < order_.size(); ++i) {
    const double device = DeviceOf(i) * there;
    const double host = HostOf(i) * here;
    const double if_there = share * device + price * SizeOf(i);
    const double if_here = (1.0 - share) * host;
    if (if_there < if_here) {
      weighed.sum += if_there;
      weighed.device += device;
    } else {
      weighed.sum += if_here;
      weighed.host += host;
    }
  }
  weighed.sum += share * hardware_.launch_seconds +
                 (1.0 - share) * neurons_.host_lead_seconds;
  weighed.device += hardware_.launch_seconds;
  weighed.host += neurons_.host_lead_seconds;
  return weighed;
}

// The slower of two is at least any mean of them, and a mean is a sum over the
// items, of which each takes its better place. The best mean is where device
// and host take as long.
double FfnCurve::LeastWithSome(double price) const {
  Weighed weighed = Weigh(0.0, price);
  double best = weighed.sum;
  double low = 0.0, high = 1.0;
  for (int i = 0; i < 18 && weighed.device > weighed.host; ++i) {
    const double share = std::midpoint(low, high);
    const Weighed next = Weigh(share, price);
    best = std::max(best, next.sum);
    (next.device > next.host ? low : high) = share;
  }
  const double other =
      are_neurons_ ? static_cast<double>(neurons_.other_bytes) : 0.0;
  return best + hardware_.sync_seconds + price * other;
}

double FfnCurve::BoundAt(double price) const {
  if (least_ == most_) {
    return Seconds(most_) + price * static_cast<double>(bytes_[most_]);
  }
  return std::min(Seconds(0), LeastWithSome(price));
}

// One item, and of the others, the most worth first, what fits and helps.
FfnCurve::Pack FfnCurve::PackWith(size_t first, uint64_t bytes) const {
  Pack pack;
  pack.seconds = Seconds(0);
  double device = 0.0, host = host_[0];
  uint64_t left = bytes;
  const auto add = [&](size_t item, bool must_help) {
    const uint64_t size = bytes_[item + 1] - bytes_[item];
    if (size > left) return;
    const double seconds =
        FfnSeconds(hardware_, true, device + DeviceOf(item),
                   host - HostOf(item), neurons_.host_lead_seconds);
    if (must_help && seconds >= pack.seconds) return;
    pack.items.push_back(order_[item]);
    pack.seconds = seconds;
    device += DeviceOf(item);
    host -= HostOf(item);
    left -= size;
  };
  add(first, false);
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i != first) add(i, true);
  }
  return pack;
}

std::vector<uint32_t> FfnCurve::PackedItems(size_t count,
                                            uint64_t bytes) const {
  Pack best = {.items = Items(count), .seconds = Seconds(count)};
  if (are_neurons_ || least_ == most_) return best.items;
  for (size_t first = 0; first < order_.size(); ++first) {
    Pack pack = PackWith(first, bytes);
    if (pack.seconds < best.seconds) best = std::move(pack);
  }
  std::ranges::sort(best.items);
  return best.items;
}

std::vector<uint32_t> FfnCurve::Items(size_t count) const {
  std::vector<uint32_t> items(order_.begin(),
                              order_.begin() + static_cast<ptrdiff_t>(count));
  std::ranges::sort(items);
  return items;
}

}  // namespace thermocline::planner
