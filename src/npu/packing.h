// A matrix as a device has it: which elements, how many share a scale, and the
// nodes that give it as floats.
#ifndef THERMOCLINE_NPU_PACKING_H_
#define THERMOCLINE_NPU_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "npu/forms.h"
#include "npu/graph.h"
#include "tensor/dtype.h"

namespace thermocline::npu {

struct Packing {
  Element element = Element::kF16;
  size_t group = 0;       // elements of a row that share a scale; 0: no scales
  bool has_zero = false;  // one zero point for each row
  bool operator==(const Packing&) const = default;
};

// Of a matrix whose rows have `columns` elements. is_transposed: the file has
// its columns as rows, so that what shares a scale there does not here.
Packing PackingOf(WeightForm form, DType dtype, bool is_transposed,
                  size_t columns);

// What it is made of: [N, K], or in groups [N, K / g, g]; scales [N, 1] or
// [N, K / g, 1]; zero points [N, 1].
struct PackedTypes {
  Type weight;
  std::optional<Type> scale;
  std::optional<Type> zero;
};
PackedTypes TypesOf(const Packing& packing, size_t rows, size_t columns);

// Adds the nodes that give F32 [N, K]: a pattern that devices know, and keep as
// it is packed.
struct PackedValues {
  Value weight;
  std::optional<Value> scale;
  std::optional<Value> zero;
};
Value AddUnpacked(Graph& graph, const PackedValues& values);

// Sets Graph::weight_group when such a matrix is added: the largest group is
// told, and -1 where all have one scale for each row.
void NoteGroup(const Type& weight, Graph& graph);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_PACKING_H_
