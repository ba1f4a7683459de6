// Other numbers for the neurons of a file that is written, so that records of
// those that fire together lie together. Everything that has an element, a row
// or a bit for each neuron moves with them, and readers need to know nothing.
#ifndef THERMOCLINE_PACK_RENUMBER_H_
#define THERMOCLINE_PACK_RENUMBER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "pack/parts.h"
#include "pack/plan.h"

namespace thermocline::pack {

// Why neurons of the model cannot be numbered in the order of the parts; empty
// if they can. Of mixtures nobody has done it: predictors and records are cut
// by experts. Of layers that nobody chooses in all gates are read, and nothing
// is won by another order.
std::string WhyInNumberOrder(const model::Model& source,
                             const PreparedParts& parts);

class Renumbering {
 public:
  // Neurons keep their numbers, also those that `source` has from a renumbering
  // of its own. `source` outlives it.
  explicit Renumbering(const model::Model& source);
  // The neuron at place i of a layer's order gets number i. Requires parts that
  // CheckParts lets pass, and for which WhyInNumberOrder is empty. (CHECKed)
  Renumbering(const model::Model& source, const PreparedParts& parts);

  // Of the source's numbers by the new ones; empty: they are the same.
  std::span<const uint32_t> neurons(size_t layer_idx) const {
    return order_.empty() ? std::span<const uint32_t>() : order_[layer_idx];
  }
  // [L][N] what tensor tc_source_neurons of the output holds; empty: there is
  // none.
  const std::vector<std::vector<uint32_t>>& source_neurons() const {
    return source_neurons_;
  }
  // The bytes of a tensor of the output, which has them in the source's order;
  // empty: they stay as they are.
  std::vector<std::byte> Moved(std::string_view name,
                               std::span<const std::byte> bytes) const;
  // ModelFingerprint::hash of the output, where it follows the numbers.
  std::optional<uint64_t> Hash() const;

 private:
  const model::Model& source_;
  std::vector<std::vector<uint32_t>> order_;  // [L][N]; empty: as they are
  std::vector<std::vector<uint32_t>> source_neurons_;
};

// In the order of the parts where options ask for it and nothing says why not.
Renumbering ChooseNumbers(const model::Model& source,
                          const PreparedParts& parts,
                          const PackOptions& options);

}  // namespace thermocline::pack

#endif  // THERMOCLINE_PACK_RENUMBER_H_
