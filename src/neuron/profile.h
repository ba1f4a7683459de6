// How often each neuron fires over a corpus: what hot and cold, densities and
// plans are made from (PowerInfer 6.1).
#ifndef THERMOCLINE_NEURON_PROFILE_H_
#define THERMOCLINE_NEURON_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"

namespace thermocline::neuron {

// Members that two ascending sets share.
size_t CountBoth(std::span<const uint32_t> a, std::span<const uint32_t> b);

// Counts of one layer; F neurons. Of a mixture neuron i of expert e is number
// e * F + i, and F below means all of them. What costs O(fired) per token and
// is enough for the figures below; sums, so that profiles of two corpora add
// up.
struct LayerProfile {
  std::vector<uint32_t> counts;        // [F] tokens for which the neuron fired
  uint64_t num_tokens = 0;             // <= kMaxProfileTokens
  uint64_t num_fired = 0;              // sum of counts
  double sum_squared_densities = 0.0;  // over tokens
  // Tokens with one before them in their sequence and a neuron that fired, and
  // the sum over these of |A_t and A_t-1| / |A_t|, A_t the neurons that fired.
  uint64_t num_pairs = 0;
  double sum_locality = 0.0;

  size_t num_neurons() const { return counts.size(); }

  // Mean over tokens of fired / F, and its standard deviation from token to
  // token. 0 without tokens.
  double density() const;
  double density_deviation() const;
  // Mean over the pairs of |A_t and A_t-1| / |A_t|; none without a pair, as
  // of tokens that follow none.
  std::optional<double> locality() const;
  // What the locality would be about if tokens had nothing to do with each
  // other, and neurons neither: sum of p^2 / sum of p, p = counts / tokens.
  double chance_locality() const;
  // The smallest share of the neurons that has at least `share` of all
  // activations. 0 if nothing fired. Cost: sorts.
  double skew(double share = 0.8) const;
  // The share of the neurons that never fired.
  double never_fired() const;
  // The share of all activations that the hottest i / (num_points - 1) of the
  // neurons have, i < num_points: from 0 to 1, by straight line between
  // neurons. All 0 if nothing fired. Requires num_points >= 2 (CHECKed).
  std::vector<double> Cdf(size_t num_points) const;

  bool operator==(const LayerProfile&) const = default;
};

// The largest count of tokens: counts are kept in files as I32.
inline constexpr uint64_t kMaxProfileTokens = 0x7fffffff;

struct Profile {
  std::vector<LayerProfile> layers;  // [L], with the same F

  // Of the layer that saw most; they differ only if a run was cut short.
  uint64_t num_tokens() const;
  // Means over the layers; 0 without any. Of locality over those that have one.
  double density() const;
  std::optional<double> locality() const;
  double skew(double share = 0.8) const;

  // Adds what another corpus gave. kInvalidArgument: other L or F, named;
  // kResourceExhausted: more than kMaxProfileTokens together. Then nothing has
  // changed.
  Status Merge(const Profile& other);

  bool operator==(const Profile&) const = default;
};

// Fills a profile token by token.
// Threads  one caller at a time.
class ProfileBuilder {
 public:
  ProfileBuilder(size_t num_layers, size_t num_neurons);

  // The next token of every layer has none before it.
  void BeginSequence();

  // One token's neurons that fired, ascending and < F (the last is CHECKed). In
  // each layer the tokens of a sequence come in their order; layers come in
  // any. Requires less than kMaxProfileTokens before (CHECKed).
  // Cost: O(fired).
  void Add(size_t layer_idx, std::span<const uint32_t> fired);

  const Profile& profile() const { return profile_; }

 private:
  struct Previous {
    std::vector<uint32_t> fired;  // ascending
    bool exists = false;
  };

  Profile profile_;
  std::vector<Previous> previous_;  // [L]
};

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_PROFILE_H_
