#include "convert/tensor_stream.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/quote.h"
#include "tensor/codec.h"

namespace thermocline::convert {
namespace {

constexpr uint64_t kPieceElems = uint64_t{1} << 20;

// The largest magnitude that can be stored. The next float rounds to infinity,
// or needs a block scale beyond F16, which the codec would cut off.
float LargestIn(DType dtype) {
  constexpr float kLargestScale = 65504.0f;
  switch (dtype) {
    case DType::kF16:
      return 0x1.ffdffep15f;  // below 65520, which is halfway to 2^16
    case DType::kBF16:
      return 0x1.fefffep127f;  // likewise, halfway to 2^128
    case DType::kQ8_0:
      return 127.0f * kLargestScale;
    case DType::kQ4_0:
      return 8.0f * kLargestScale;
    default:
      return std::numeric_limits<float>::max();
  }
}

Status CheckRange(std::span<const float> row, const PlannedTensor& tensor) {
  const float largest = LargestIn(tensor.dtype);
  for (const float x : row) {
    if (std::fabs(x) <= largest) continue;
    if (!std::isfinite(x)) {
      return Fail(ErrorCode::kCorrupt, "tensor {} has an element that is {}",
                  Quote(tensor.source->name), x);
    }
    return Fail(
        ErrorCode::kCorrupt,
        "tensor {} has an element {}, too large for {}; choose {}",
        Quote(tensor.source->name), x, NameOf(tensor.dtype),
        std::fabs(x) <= LargestIn(DType::kBF16) ? "BF16 or F32" : "F32");
  }
  return {};
}

}  // namespace

Status StreamTensor(const PlannedTensor& tensor, gguf::Writer& writer) {
  // Permutation moves the elements of a vector as it moves a matrix's rows.
  const bool is_vector = tensor.shape.rank == 1;
  const uint64_t row_elems = is_vector ? 1 : tensor.shape.ne[0];
  const uint64_t num_rows = tensor.shape.num_elems() / row_elems;
  const DType source_dtype = *tensor.source->dtype;
  const size_t source_row_bytes = BytesOf(source_dtype, row_elems);
  const uint64_t piece_rows =
      std::min(num_rows, std::max(uint64_t{1}, kPieceElems / row_elems));

  std::vector<float> values(piece_rows * row_elems);
  std::vector<std::byte> encoded(BytesOf(tensor.dtype, values.size()));
  for (uint64_t begin = 0; begin < num_rows; begin += piece_rows) {
    const uint64_t end = std::min(num_rows, begin + piece_rows);
    const std::span piece(values.data(), (end - begin) * row_elems);
    for (uint64_t row = begin; row < end; ++row) {
      const uint64_t from = tensor.permuted_head_width == 0
                                ? row
                                : SourceRow(row, tensor.permuted_head_width);
      DequantizeRow(source_dtype,
                    tensor.source->bytes.data() + from * source_row_bytes,
                    piece.subspan((row - begin) * row_elems, row_elems));
    }
    TC_RETURN_IF_ERROR(CheckRange(piece, tensor));
    QuantizeRow(tensor.dtype, piece, encoded.data());
    TC_RETURN_IF_ERROR(writer.WriteTensorData(
        std::span(encoded.data(), BytesOf(tensor.dtype, piece.size()))));
  }
  return {};
}

}  // namespace thermocline::convert
