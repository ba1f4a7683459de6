// A shape and bytes that somebody else owns.
//
// Letters used everywhere: T tokens, D model width, F neurons per FFN, H query
// heads, K head width, V vocabulary, L layers. Shapes in comments are written
// outermost first: a weight [F, D] has F rows of D contiguous elements, which
// the file format stores as ne = {D, F}.
#ifndef THERMOCLINE_TENSOR_TENSOR_VIEW_H_
#define THERMOCLINE_TENSOR_TENSOR_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace thermocline {

inline constexpr int kMaxDims = 4;

// Extents in the file's order: ne[0] is the contiguous row length. Unused
// extents are 1.
struct Shape {
  std::array<uint64_t, kMaxDims> ne = {1, 1, 1, 1};
  int rank = 0;

  uint64_t num_rows() const { return ne[1] * ne[2] * ne[3]; }
  uint64_t num_elems() const { return ne[0] * num_rows(); }
  bool operator==(const Shape&) const = default;
};

// "[4096, 32000]", in the file's order.
std::string ToString(const Shape& shape);

// Non-owning; the bytes outlive the view. Elements of a row are contiguous;
// rows follow each other, or lie stride_bytes apart where they are parts of
// records. Nothing is aligned beyond what the file gives: loads must be
// unaligned.
// A tensor without a shape is absent. One that has a shape is there, though its
// bytes may not be in memory: then nothing but `data` differs.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;  // null: absent, or not in memory
  size_t stride_bytes = 0;          // from row to row; 0: row_bytes()

  explicit operator bool() const { return shape.rank > 0; }  // it is there
  bool in_memory() const { return data != nullptr; }
  size_t row_bytes() const { return BytesOf(dtype, shape.ne[0]); }
  size_t num_bytes() const { return row_bytes() * shape.num_rows(); }
  size_t row_stride() const {
    return stride_bytes != 0 ? stride_bytes : row_bytes();
  }
  // Behind the first `offset` bytes; null if it is not in memory.
  const std::byte* data_from(size_t offset) const {
    return in_memory() ? data + offset : nullptr;
  }
  const std::byte* row(uint64_t row_idx) const {
    TC_DCHECK(in_memory() && row_idx < shape.num_rows());
    return data + row_idx * row_stride();
  }
};

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_TENSOR_VIEW_H_
