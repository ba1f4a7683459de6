#include "neuron/profile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace thermocline::neuron {
namespace {

double Ratio(double part, double whole) {
  return whole == 0.0 ? 0.0 : part / whole;
}

std::vector<uint32_t> HottestFirst(const std::vector<uint32_t>& counts) {
  std::vector<uint32_t> sorted = counts;
  std::ranges::sort(sorted, std::greater<>());
  return sorted;
}

template <typename Figure>
double MeanOfLayers(const std::vector<LayerProfile>& layers, Figure figure) {
  double sum = 0.0;
  for (const LayerProfile& layer : layers) sum += figure(layer);
  return Ratio(sum, static_cast<double>(layers.size()));
}

}  // namespace

size_t CountBoth(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  size_t count = 0;
  auto other = b.begin();
  for (const uint32_t member : a) {
    while (other != b.end() && *other < member) ++other;
    if (other == b.end()) break;
    if (*other == member) ++count;
  }
  return count;
}

double LayerProfile::density() const {
  return Ratio(
      static_cast<double>(num_fired),
      static_cast<double>(num_tokens) * static_cast<double>(num_neurons()));
}

double LayerProfile::density_deviation() const {
  const double mean = density();
  const double mean_square =
      Ratio(sum_squared_densities, static_cast<double>(num_tokens));
  // Rounding may leave a difference slightly below 0.
  return std::sqrt(std::max(mean_square - mean * mean, 0.0));
}

std::optional<double> LayerProfile::locality() const {
  if (num_pairs == 0) return std::nullopt;
  return Ratio(sum_locality, static_cast<double>(num_pairs));
}

double LayerProfile::chance_locality() const {
  double sum_squares = 0.0;
  for (const uint32_t count : counts) {
    sum_squares += static_cast<double>(count) * static_cast<double>(count);
  }
  return Ratio(sum_squares, static_cast<double>(num_fired) *
                                static_cast<double>(num_tokens));
}

double LayerProfile::skew(double share) const {
  if (num_fired == 0) return 0.0;
  const double wanted = share * static_cast<double>(num_fired);
  uint64_t sum = 0;
  size_t num_hot = 0;
  for (const uint32_t count : HottestFirst(counts)) {
    if (static_cast<double>(sum) >= wanted) break;
    sum += count;
    ++num_hot;
  }
  return static_cast<double>(num_hot) / static_cast<double>(num_neurons());
}

double LayerProfile::never_fired() const {
  return Ratio(static_cast<double>(std::ranges::count(counts, 0u)),
               static_cast<double>(num_neurons()));
}

std::vector<double> LayerProfile::Cdf(size_t num_points) const {
  TC_CHECK(num_points >= 2);
  std::vector<double> points(num_points, 0.0);
  if (num_fired == 0) return points;
  const std::vector<uint32_t> sorted = HottestFirst(counts);
  std::vector<uint64_t> sums(sorted.size() + 1, 0);  // of the hottest i
  std::partial_sum(sorted.begin(), sorted.end(), sums.begin() + 1,
                   [](uint64_t sum, uint64_t count) { return sum + count; });
  for (size_t i = 0; i < num_points; ++i) {
    const double place = static_cast<double>(i) /
                         static_cast<double>(num_points - 1) *
                         static_cast<double>(sorted.size());
    const size_t below = std::min(static_cast<size_t>(place), sorted.size());
    const size_t above = std::min(below + 1, sorted.size());
    const double step = static_cast<double>(sums[above] - sums[below]);
    points[i] = (static_cast<double>(sums[below]) +
                 (place - static_cast<double>(below)) * step) /
                static_cast<double>(num_fired);
  }
  return points;
}

uint64_t Profile::num_tokens() const {
  uint64_t most = 0;
  for (const LayerProfile& layer : layers) {
    most = std::max(most, layer.num_tokens);
  }
  return most;
}

double Profile::density() const {
  return MeanOfLayers(layers, [](const auto& l) { return l.density(); });
}

std::optional<double> Profile::locality() const {
  double sum = 0.0;
  size_t count = 0;
  for (const LayerProfile& layer : layers) {
    const std::optional<double> locality = layer.locality();
    sum += locality.value_or(0.0);
    count += locality ? 1 : 0;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

double Profile::skew(double share) const {
  return MeanOfLayers(layers, [&](const auto& l) { return l.skew(share); });
}

Status Profile::Merge(const Profile& other) {
  if (layers.size() != other.layers.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                "profiles of {} and {} layers do not add up: they are of "
                "different models",
                layers.size(), other.layers.size());
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerProfile& a = layers[l];
    const LayerProfile& b = other.layers[l];
    if (a.num_neurons() != b.num_neurons()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "profiles do not add up: layer {} has {} neurons in the one "
                  "and {} in the other; they are of different models",
                  l, a.num_neurons(), b.num_neurons());
    }
    if (b.num_tokens > kMaxProfileTokens - a.num_tokens) {
      return Fail(ErrorCode::kResourceExhausted,
                  "profiles of {} and {} tokens are more than the {} that one "
                  "can hold",
                  a.num_tokens, b.num_tokens, kMaxProfileTokens);
    }
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    LayerProfile& to = layers[l];
    const LayerProfile& from = other.layers[l];
    std::ranges::transform(from.counts, to.counts, to.counts.begin(),
                           std::plus<>());
    to.num_tokens += from.num_tokens;
    to.num_fired += from.num_fired;
    to.sum_squared_densities += from.sum_squared_densities;
    to.num_pairs += from.num_pairs;
    to.sum_locality += from.sum_locality;
  }
  return {};
}

ProfileBuilder::ProfileBuilder(size_t num_layers, size_t num_neurons)
    : previous_(num_layers) {
  profile_.layers.resize(num_layers);
  for (LayerProfile& layer : profile_.layers) layer.counts.resize(num_neurons);
}

void ProfileBuilder::BeginSequence() {
  for (Previous& previous : previous_) previous.exists = false;
}

void ProfileBuilder::Add(size_t layer_idx, std::span<const uint32_t> fired) {
  LayerProfile& layer = profile_.layers[layer_idx];
  Previous& previous = previous_[layer_idx];
  TC_CHECK(layer.num_tokens < kMaxProfileTokens);
  TC_CHECK(fired.empty() || fired.back() < layer.num_neurons());
  for (const uint32_t neuron : fired) ++layer.counts[neuron];
  ++layer.num_tokens;
  layer.num_fired += fired.size();
  const double density = Ratio(static_cast<double>(fired.size()),
                               static_cast<double>(layer.num_neurons()));
  layer.sum_squared_densities += density * density;
  if (previous.exists && !fired.empty()) {
    ++layer.num_pairs;
    layer.sum_locality +=
        static_cast<double>(CountBoth(fired, previous.fired)) /
        static_cast<double>(fired.size());
  }
  previous.fired.assign(fired.begin(), fired.end());
  previous.exists = true;
}

}  // namespace thermocline::neuron
