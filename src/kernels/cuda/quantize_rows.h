// Rounds rows of x to 8 bits per 32 elements, for products with weights in
// blocks.
#ifndef THERMOCLINE_KERNELS_CUDA_QUANTIZE_ROWS_H_
#define THERMOCLINE_KERNELS_CUDA_QUANTIZE_ROWS_H_

#include <cstddef>

namespace thermocline::cuda {

struct QuantizeRowsArgs {
  int n = 0;  // a multiple of 32
  int num_rows = 0;
  const float* x = nullptr;   // [num_rows, n]
  std::byte* rows = nullptr;  // kernels::QuantizedRowsBytes(n, num_rows)
};

// Each row, at a multiple of 16 bytes: quants [n], int8; scales [n / 32],
// float; sums of quants [n / 32][2], int16, of 16 each. Scales and quants are
// the host's (kernels/activation_row.h) bit for bit; a block with NaN or
// infinity has such a scale.
void LaunchQuantizeRows(const QuantizeRowsArgs& args, void* stream);

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_QUANTIZE_ROWS_H_
