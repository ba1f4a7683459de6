// How what fires changes from token to token and from text to text: what a
// policy that moves units has to live with. Units are neurons, or experts; U in
// each of L layers. Of a trace it takes two readings: one that counts
// (neuron/profile.h, text_heat.h), one that looks at who was hot.
#ifndef THERMOCLINE_NEURON_DYNAMICS_H_
#define THERMOCLINE_NEURON_DYNAMICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace thermocline::neuron {

// The share of a layer's units that counts as hot.
inline constexpr double kHotShare = 0.2;
inline constexpr size_t kHeatTenths = 10;
inline constexpr size_t kMaxOffset = 8;  // tokens that are looked ahead

// The count from which a unit is hot: that of the last of the hottest kHotShare
// of the units, rounded up; at least 1, so that nothing is hot that never
// fired. Units with that very count are all hot: no order among them is made
// up. Cost: O(U).
uint32_t HotFrom(std::span<const uint32_t> counts);

struct Mean {
  uint64_t count = 0;
  double sum = 0.0;

  void Add(double value) {
    ++count;
    sum += value;
  }
  std::optional<double> value() const {
    if (count == 0) return std::nullopt;
    return sum / static_cast<double>(count);
  }
};

// Units active per token.
struct ActiveMoments {
  uint64_t num_tokens = 0;
  double sum = 0.0;
  double sum_squares = 0.0;
  uint32_t most = 0;

  void Add(uint32_t num_active);
  // 0 without tokens.
  double mean() const;
  double deviation() const;  // from token to token
};

// Units that fire about equally often, [0] one token later, [1] two, ...: how
// often those that fire fire again then.
struct Recurrence {
  std::array<uint64_t, kMaxOffset> num_pairs = {};  // fired, and a token then
  std::array<uint64_t, kMaxOffset> num_again = {};  // of them, fired then too
  uint64_t num_fired = 0;
  double sum_squared_counts = 0.0;
  uint64_t num_tokens = 0;  // of the layer, or of all of them

  // P(active at t + offset | active at t), 1 <= offset <= kMaxOffset, of all
  // units together, each as often as it fires; none without a pair.
  std::optional<double> at(size_t offset) const;
  // What it would be if tokens had nothing to do with each other.
  std::optional<double> by_chance() const;
  void Add(const Recurrence& other);
};

struct LayerDynamics {
  size_t num_hot = 0;
  // |A and B| / |A or B| of a token's set and that of the token before it in
  // its text, where one of both is not empty (DynamicInfer, Fig. 2c).
  Mean jaccard;
  // Likewise of a token's set and the hot units.
  Mean jaccard_with_hot;
  // Active per token (KAIROX, Fig. 4).
  ActiveMoments hot;
  ActiveMoments cold;
  // By tenths of the units, the hottest first (KAIROX, Fig. 8). A unit that is
  // as frequent as another comes after it if its number is higher.
  std::array<Recurrence, kHeatTenths> tenths;
};

struct ActiveCounts {
  uint32_t hot = 0;
  uint32_t cold = 0;
};

// The second reading.
// Threads  one caller at a time. Memory: 2 bytes a unit.
class DynamicsBuilder {
 public:
  // counts [L][U]: how often each unit fires in these very tokens.
  explicit DynamicsBuilder(std::span<const std::vector<uint32_t>> counts);

  // The next token of every layer has none before it.
  void BeginText();

  // One token's units that fired, ascending and < U (CHECKed). In each layer
  // the tokens of a text come in their order; layers come in any. How many of
  // them are hot and not. Cost: O(fired), and U bytes read and written.
  ActiveCounts Add(size_t layer_idx, std::span<const uint32_t> fired);

  const std::vector<LayerDynamics>& layers() const { return layers_; }

 private:
  // What is known of a layer's text so far.
  struct Past {
    // [U] bit d - 1: fired d tokens ago.
    std::vector<uint8_t> fired_at;
    // Of the token d tokens ago, at [(num_tokens - d) % kMaxOffset]: how many
    // of each tenth fired.
    std::array<std::array<uint32_t, kHeatTenths>, kMaxOffset> actives = {};
    uint64_t num_tokens = 0;
    size_t num_last = 0;  // units of the token before
  };

  void CountPairs(LayerDynamics& layer, const Past& past) const;

  std::vector<LayerDynamics> layers_;
  std::vector<Past> pasts_;                  // [L]
  std::vector<std::vector<uint8_t>> heats_;  // [L][U] tenth, and kIsHot
};

// Whom a predictor named, against who fired.
struct Naming {
  uint64_t num_fired = 0;
  uint64_t num_named = 0;
  uint64_t num_both = 0;

  void Add(std::span<const uint32_t> named, std::span<const uint32_t> fired);
  void Add(const Naming& other);
  // Share of those that fired that was named, and of those named that fired;
  // none of nothing.
  std::optional<double> recall() const;
  std::optional<double> precision() const;
};

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_DYNAMICS_H_
