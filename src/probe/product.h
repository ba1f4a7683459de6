// How fast a kernel multiplies what lies in the cache: the roof that arithmetic
// sets, next to memory's.
#ifndef THERMOCLINE_PROBE_PRODUCT_H_
#define THERMOCLINE_PROBE_PRODUCT_H_

#include <cstddef>

#include "base/status.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"

namespace thermocline::probe {

struct ProductRate {
  double gb_per_s;    // of weights, 1 GB = 1e9 bytes
  double gmac_per_s;  // 1e9 multiplications with an addition
  bool is_batch;      // by table.batch_of, else by table.matmul
};

// Multiplies about 256 KiB of random weights (with several tokens 128 rows at
// most: 144 KiB of Q4_0) with num_tokens >= 1 random inputs, on the calling
// thread, with the kernel of single tokens or, of several, that of prompts.
// Median of some samples of 4 ms of the thread's CPU time, so that a busy
// machine matters little. Preparing the inputs (rounding, packing) is not part
// of the time. kCorrupt, before anything is timed: the result is further off a
// scalar product in double than rounding explains. kUnsupported: the table has
// no kernel for the type. kResourceExhausted: no memory. Cost: some 50 ms for a
// vector ISA; 9 MiB for 512 tokens, 4 of them inputs.
Result<ProductRate> MeasureProduct(const kernels::KernelTable& table,
                                   DType dtype, size_t num_tokens);

}  // namespace thermocline::probe

#endif  // THERMOCLINE_PROBE_PRODUCT_H_
