#include "compute/product_scratch.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/activation_row.h"
#include "kernels/kernels.h"

namespace thermocline::compute {

ProductScratch CarveProducts(const ProductShape& shape, Carver& carver) {
  const kernels::KernelTable& kernels = kernels::KernelsFor(shape.isa);
  // Of all forms the larger group, which the smaller one divides, and the
  // larger row.
  uint64_t group_rows = 1;
  uint64_t row_bytes = kernels::ActivationRowBytes(shape.widest);
  ProductScratch scratch;
  for (const kernels::BatchMatMul* form :
       {&kernels.batch, &kernels.float_batch}) {
    if (!*form) continue;
    const uint64_t group = form->group_tokens;
    group_rows = std::max(group_rows, group);
    row_bytes = std::max<uint64_t>(
        row_bytes, CeilDiv<uint64_t>(form->group_bytes(shape.widest), group));
    scratch.tile_bytes = std::max(
        scratch.tile_bytes,
        RoundUp<size_t>(form->scratch_bytes(shape.widest), Carver::kAlignment));
  }
  scratch.rounded_rows = carver.TakeBytes(CeilDiv(shape.num_rows, group_rows),
                                          group_rows * row_bytes);
  scratch.tiles = carver.TakeBytes(static_cast<uint64_t>(shape.num_threads),
                                   scratch.tile_bytes);
  return scratch;
}

}  // namespace thermocline::compute
