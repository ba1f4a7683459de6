// The parts of a prepared model as keys and tensors of a file.
#ifndef THERMOCLINE_PACK_TENSORS_H_
#define THERMOCLINE_PACK_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/writer.h"
#include "model/config.h"
#include "pack/parts.h"
#include "tensor/tensor_view.h"

namespace thermocline::pack {

// Points into the parts, but for sets, whose bytes are its own.
struct PartTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::span<const std::byte> bytes;
  std::vector<std::byte> own_bytes;

  std::span<const std::byte> data() const {
    return own_bytes.empty() ? bytes : std::span<const std::byte>(own_bytes);
  }
};

// Every tensor that CheckParts' parts become, layer by layer.
std::vector<PartTensor> TensorsOf(const PreparedParts& parts,
                                  const model::Config& config);

// tensor tc_source_neurons of each layer; points into the numbers [L][N].
std::vector<PartTensor> TensorsOfNumbers(
    const std::vector<std::vector<uint32_t>>& source_neurons);

// The version, and every key of the parts. model_hash: takes the place of that
// in the profile's keys.
Status AddPartKeys(const PreparedParts& parts, gguf::Writer& writer,
                   std::optional<uint64_t> model_hash = std::nullopt);

}  // namespace thermocline::pack

#endif  // THERMOCLINE_PACK_TENSORS_H_
