// The memory that products need for their inputs.
#ifndef THERMOCLINE_COMPUTE_PRODUCT_SCRATCH_H_
#define THERMOCLINE_COMPUTE_PRODUCT_SCRATCH_H_

#include <cstdint>

#include "compute/carver.h"
#include "compute/matmul.h"
#include "kernels/isa.h"

namespace thermocline::compute {

struct ProductShape {
  uint64_t num_rows = 1;  // multiplied together, at most
  uint64_t widest = 1;    // elements of the widest input
  int num_threads = 1;
  kernels::Isa isa = kernels::Isa::kScalar;
};

// Room for every form of product that the ISA has.
ProductScratch CarveProducts(const ProductShape& shape, Carver& carver);

}  // namespace thermocline::compute

#endif  // THERMOCLINE_COMPUTE_PRODUCT_SCRATCH_H_
