// Records: the parts of one neuron side by side, so that one visit reads them.
// Byte by byte: docs/formats/prepared.md.
#ifndef THERMOCLINE_NEURON_RECORD_H_
#define THERMOCLINE_NEURON_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace thermocline::neuron {

inline constexpr size_t kRecordAlignment = 64;     // of every record
inline constexpr size_t kStorageAlignment = 4096;  // for reads past the cache

// What is in a record: gate row, up row, down column, each D elements in its
// own type, one behind the other, then zeros up to the stride.
//   PowerInfer-2 4.4 bundles the same three.
// Without a gate if the FFN has none, or if its gate rows stay a matrix: where
// all are tested and few neurons fire, a matrix is read in sequence.
struct RecordLayout {
  std::optional<DType> gate;
  DType up = DType::kF32;
  DType down = DType::kF32;  // in blocks along D
  uint64_t width = 0;        // D; a multiple of every part's block
  size_t stride = 0;         // a multiple of kRecordAlignment

  size_t gate_offset() const { return 0; }
  size_t up_offset() const;
  size_t down_offset() const;
  size_t used_bytes() const;  // without the padding

  bool operator==(const RecordLayout&) const = default;
};

// The layout with the least stride that is a multiple of `alignment`, itself a
// multiple of kRecordAlignment. kUnsupported: a type that cannot be bundled
// (no kernels, or blocks that do not divide D), named.
Result<RecordLayout> MakeRecordLayout(std::optional<DType> gate, DType up,
                                      DType down, uint64_t width,
                                      size_t alignment = kRecordAlignment);

// The parts of num_neurons records at `records` as matrices [F, D] whose rows
// lie a stride apart: gate (absent without one), up, down transposed. Null
// `records`: they are not in memory.
struct RecordViews {
  TensorView gate, up, down_t;
};
RecordViews ViewRecords(const RecordLayout& layout, const std::byte* records,
                        uint64_t num_neurons);

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_RECORD_H_
