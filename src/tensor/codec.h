// Scalar codecs of every computable type: the reference that all SIMD code is
// compared with, and the path for work that is not hot.
#ifndef THERMOCLINE_TENSOR_CODEC_H_
#define THERMOCLINE_TENSOR_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace thermocline {

// dst[i] = value of element i of the row at `src`.
// Requires can_compute, dst.size() % block_elems == 0, and BytesOf(dtype,
// dst.size()) readable bytes at src, of any alignment. (CHECKed but the last)
void DequantizeRow(DType dtype, const std::byte* src, std::span<float> dst);

// Writes BytesOf(dtype, src.size()) bytes at dst. Same requirements. The
// choices of scale are those of llama.cpp's reference quantisers, imatrix-free;
// for the K types better ones (k_search.h). Non-finite inputs give unspecified,
// but valid, blocks.
void QuantizeRow(DType dtype, std::span<const float> src, std::byte* dst);

// The six-bit scales and minima of a Q4_K or Q5_K block, unpacked.
struct KScales {
  uint8_t scale[8];
  uint8_t min[8];
};
KScales UnpackScales(const uint8_t packed[12]);

// The first element (flat index) that is NaN or infinite, or for quantised
// types belongs to a block with a non-finite scale; nullopt when all is finite.
std::optional<uint64_t> FindNonFinite(const TensorView& tensor);

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_CODEC_H_
