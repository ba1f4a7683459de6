// Tokens that use neurons and experts as a profile counted them.
#ifndef THERMOCLINE_CLI_STORAGE_DRAW_H_
#define THERMOCLINE_CLI_STORAGE_DRAW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "model/config.h"
#include "neuron/profile.h"

namespace thermocline::cli {

// How often neurons of a layer fire, and how likely one stays as it was.
struct LayerLaw {
  std::vector<float> shares;
  double stays = 0.0;
};

// So that tokens have the profile's counts and its locality.
std::vector<LayerLaw> LawsOf(const neuron::Profile& profile);

// Neurons that are asked for token by token, by each one's own chain.
class Drawer {
 public:
  // per_fired times as many as fire, the often firing ones more often.
  // extra_only: those of them alone that do not fire.
  Drawer(std::vector<LayerLaw> laws, double per_fired, bool extra_only,
         uint64_t seed);

  // [F] of the layer's next token.
  const std::vector<bool>& Next(size_t layer_idx);

 private:
  bool Fires(float share) {
    return random_.Uniform() < static_cast<double>(share);
  }

  std::vector<LayerLaw> laws_;
  std::vector<std::vector<bool>> states_;
  Random random_;
};

// Experts of a layer: as many as the model chooses, the busy ones more often.
class ExpertDrawer {
 public:
  ExpertDrawer(const model::Config& config, const std::vector<LayerLaw>& laws,
               uint64_t seed);

  // Of the layer's next token, ascending.
  std::vector<uint32_t> Next(size_t layer_idx);

 private:
  struct Layer {
    std::vector<double> weights;  // [E]
    size_t num_used = 0;
    double stays = 0.0;
    std::vector<uint32_t> chosen;
  };

  // One more, by weight among those that are not. False: nobody is left.
  bool Choose(Layer& layer);

  std::vector<Layer> layers_;
  Random random_;
};

// Those of the experts of `width` neurons that neurons, ascending, are of.
std::vector<uint32_t> ExpertsOf(const std::vector<uint32_t>& neurons,
                                size_t width);

// Neurons of the experts that a token has: each fires, or is named, as often as
// it was counted in tokens that had its expert, whatever it did before.
class ExpertNeurons {
 public:
  // per_fired as of Drawer; 0: all neurons of an expert are asked for.
  ExpertNeurons(const model::Config& config, std::vector<LayerLaw> laws,
                double per_fired, uint64_t seed);

  // Of these experts, ascending, besides those that fired.
  std::vector<uint32_t> Of(size_t layer_idx,
                           const std::vector<uint32_t>& experts,
                           const std::vector<uint32_t>& fired);

 private:
  std::vector<size_t> widths_;              // [L] of an expert
  std::vector<std::vector<float>> shares_;  // [L][E * F]
  bool asks_all_;
  Random random_;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STORAGE_DRAW_H_
