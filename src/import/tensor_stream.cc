#include "import/tensor_stream.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/quote.h"
#include "tensor/codec.h"
#include "tensor/element_range.h"

namespace thermocline::importer {
namespace {

constexpr uint64_t kStreamElems = uint64_t{1} << 20;

}  // namespace

Status StreamSource(const std::string& folder, const PlannedTensor& tensor,
                    size_t source_idx, gguf::Writer& writer) {
  const SafeTensor& source = *tensor.sources[source_idx];
  const bool is_vector = tensor.shape.rank == 1;
  const uint64_t row_elems = is_vector ? 1 : tensor.shape.ne[0];
  const uint64_t num_rows =
      tensor.shape.num_elems() / row_elems / tensor.sources.size();
  const DType source_dtype = *source.dtype;
  const size_t source_row_bytes = BytesOf(source_dtype, row_elems);
  const uint64_t piece_rows =
      std::min(num_rows, std::max(uint64_t{1}, kStreamElems / row_elems));

  std::vector<float> values(piece_rows * row_elems);
  std::vector<std::byte> encoded(BytesOf(tensor.dtype, values.size()));
  for (uint64_t begin = 0; begin < num_rows; begin += piece_rows) {
    const uint64_t end = std::min(num_rows, begin + piece_rows);
    const std::span piece(values.data(), (end - begin) * row_elems);
    for (uint64_t row = begin; row < end; ++row) {
      const uint64_t from = tensor.rows.empty() ? row : tensor.rows[row];
      DequantizeRow(source_dtype, source.bytes.data() + from * source_row_bytes,
                    piece.subspan((row - begin) * row_elems, row_elems));
    }
    if (tensor.adds_one) {
      for (float& value : piece) value += 1.0f;
    }
    if (const auto bad = FindUnstorable(tensor.dtype, piece)) {
      return Fail(ErrorCode::kCorrupt, "{}: tensor {} has {}", folder,
                  Quote(source.name),
                  DescribeUnstorable(tensor.dtype, piece[*bad]));
    }
    QuantizeRow(tensor.dtype, piece, encoded.data());
    TC_RETURN_IF_ERROR(writer.WriteTensorData(
        std::span(encoded.data(), BytesOf(tensor.dtype, piece.size()))));
  }
  return {};
}

}  // namespace thermocline::importer
