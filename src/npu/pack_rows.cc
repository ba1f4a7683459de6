#include "npu/pack_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "npu/quantize_row.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"
#include "tensor/float16.h"

namespace thermocline::npu {
namespace {

constexpr uint16_t kExponent = 0x7c00;
bool IsFiniteHalf(uint16_t half) { return (half & kExponent) != kExponent; }

// Without a way out in the middle, which would forbid taking several at once.
bool AreFinite(std::span<const uint16_t> halves) {
  unsigned num_wrong = 0;
  for (const uint16_t half : halves) num_wrong += IsFiniteHalf(half) ? 0 : 1;
  return num_wrong == 0;
}

// F16ToF32 of finite numbers, without a branch: a subnormal F32 times 2^112.
float FiniteHalf(uint16_t half) {
  const uint32_t magnitude = (half & 0x7fffu) << 13;
  const uint32_t sign = (half & 0x8000u) << 16;
  return std::bit_cast<float>(
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f) |
      sign);
}

// Whether blocks of the file are what the device gets.
bool HasSameForm(DType dtype, const Packing& packing) {
  switch (dtype) {
    case DType::kF16:
      return packing == Packing{};
    case DType::kQ8_0:
      return packing == Packing{Element::kI8, 32};
    case DType::kQ6_K:
      return packing == Packing{Element::kI8, 16};
    case DType::kQ4_0:
      return packing == Packing{Element::kI4, 32};
    default:
      return false;
  }
}

template <typename Block>
Block BlockAt(const std::byte* row, size_t block_idx) {
  Block block;
  std::memcpy(&block, row + block_idx * sizeof(Block), sizeof(Block));
  return block;
}

// The codes of a block and their scales, each of `group` elements.
void Unblock(const BlockQ8_0& block, int8_t* codes, uint16_t* scale) {
  std::ranges::copy(block.qs, codes);
  *scale = block.d;
}

void Unblock(const BlockQ4_0& block, int8_t* codes, uint16_t* scale) {
  for (size_t j = 0; j < 16; ++j) {
    codes[j] = static_cast<int8_t>((block.qs[j] & 15) - 8);
    codes[j + 16] = static_cast<int8_t>((block.qs[j] >> 4) - 8);
  }
  *scale = block.d;
}

void Unblock(const BlockQ6_K& block, int8_t* codes, uint16_t* scales) {
  for (size_t half = 0; half < 2; ++half) {
    for (size_t group = 0; group < 4; ++group) {
      const uint8_t* low = block.ql + 64 * half + 32 * (group & 1);
      const uint8_t* high = block.qh + 32 * half;
      int8_t* to = codes + 128 * half + 32 * group;
      const size_t shift = group < 2 ? 0 : 4;
      for (size_t lane = 0; lane < 32; ++lane) {
        const int upper = high[lane] >> (2 * group) & 3;
        const int nibble = low[lane] >> shift & 15;
        to[lane] = static_cast<int8_t>((upper << 4 | nibble) - 32);
      }
    }
  }
  for (size_t i = 0; i < 16; ++i) {
    scales[i] =
        F32ToF16(F16ToF32(block.d) * static_cast<float>(block.scales[i]));
  }
}

// DequantizeRow, fast for F16, of which NaN and infinity become numbers that no
// F16 has.
void Decode(DType dtype, const std::byte* row, std::span<float> to) {
  if (dtype != DType::kF16) return DequantizeRow(dtype, row, to);
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, row + i * sizeof(half), sizeof(half));
    to[i] = FiniteHalf(half);
  }
}

// Makes row after row and writes it to its place.
class RowWriter {
 public:
  RowWriter(const Packing& packing, size_t columns, const PackedMemory& to,
            bool measures)
      : packing_(packing),
        num_groups_(packing.group == 0 ? 0 : columns / packing.group),
        to_(to),
        measures_(measures),
        floats_(columns),
        halves_(packing.group == 0 ? columns : 0),
        codes_(packing.group == 0 ? 0 : columns),
        scales_(num_groups_),
        decoded_(measures ? columns : 0) {}

  // A row of the file.
  Status Add(size_t row_idx, DType dtype, const std::byte* row) {
    if (!HasSameForm(dtype, packing_)) {
      Decode(dtype, row, floats_);
      return AddFloats(row_idx, floats_);
    }
    TC_RETURN_IF_ERROR(TakeBlocks(dtype, row));
    Write(row_idx);
    // All others are the file's numbers.
    if (!measures_ || dtype != DType::kQ6_K) return {};
    Decode(dtype, row, floats_);
    Measure(floats_);
    return {};
  }

  Status AddFloats(size_t row_idx, std::span<const float> x) {
    if (packing_.group == 0) {
      TC_RETURN_IF_ERROR(ToHalves(x, halves_.data()));
    } else {
      TC_RETURN_IF_ERROR(Quantize(x));
    }
    Write(row_idx);
    if (measures_) Measure(x);
    return {};
  }

  double relative_error() const {
    return error_ == 0.0 ? 0.0 : std::sqrt(error_ / signal_);
  }

 private:
  Status TakeBlocks(DType dtype, const std::byte* row);
  Status Quantize(std::span<const float> x);
  Status CheckGroups() const;
  void Write(size_t row_idx) const;
  void WriteNibbles(size_t row_idx, std::span<const int8_t> codes,
                    std::byte* to) const;
  void Measure(std::span<const float> x);

  bool has_nibbles() const {
    return packing_.element == Element::kI4 || packing_.element == Element::kU4;
  }
  Packing packing_;
  size_t num_groups_;
  PackedMemory to_;
  bool measures_;
  // Of a row: as the file means it, as the device has it.
  std::vector<float> floats_;
  std::vector<uint16_t> halves_;
  std::vector<int8_t> codes_;
  std::vector<uint16_t> scales_;
  uint8_t zero_ = 0;
  std::vector<float> decoded_;
  double error_ = 0.0;
  double signal_ = 0.0;
};

Status RowWriter::TakeBlocks(DType dtype, const std::byte* row) {
  if (dtype == DType::kF16) {
    std::memcpy(halves_.data(), row, halves_.size() * sizeof(uint16_t));
    if (AreFinite(halves_)) return {};
    return Fail(ErrorCode::kInvalidArgument, "an element is not finite");
  }
  const auto unblock_all = [&]<typename Block>(size_t num_elems, Block) {
    for (size_t b = 0; b * num_elems < codes_.size(); ++b) {
      Unblock(BlockAt<Block>(row, b), codes_.data() + b * num_elems,
              scales_.data() + b * num_elems / packing_.group);
    }
  };
  if (dtype == DType::kQ8_0) unblock_all(kBlock, BlockQ8_0());
  if (dtype == DType::kQ4_0) unblock_all(kBlock, BlockQ4_0());
  if (dtype == DType::kQ6_K) unblock_all(kSuperBlock, BlockQ6_K());
  return CheckGroups();
}

// Devices multiply codes and scales in F16.
Status RowWriter::CheckGroups() const {
  for (size_t g = 0; g < num_groups_; ++g) {
    const float scale = std::abs(F16ToF32(scales_[g]));
    if (IsFiniteHalf(scales_[g]) && scale * 128.0f <= kMaxF16) continue;
    int most = 1;
    for (size_t i = g * packing_.group; i < (g + 1) * packing_.group; ++i) {
      most = std::max(most, std::abs(int{codes_[i]}));
    }
    if (!IsFiniteHalf(scales_[g]) ||
        scale * static_cast<float>(most) > kMaxF16) {
      return Fail(ErrorCode::kInvalidArgument,
                  "a block whose scale is not finite, or whose elements are "
                  "larger than F16 can hold ({:.0f})",
                  kMaxF16);
    }
  }
  return {};
}

Status RowWriter::Quantize(std::span<const float> x) {
  for (size_t g = 0; g < num_groups_; ++g) {
    const std::span<const float> part =
        x.subspan(g * packing_.group, packing_.group);
    int8_t* codes = codes_.data() + g * packing_.group;
    const auto quantize = [&] {
      if (packing_.element == Element::kI8) return QuantizeI8(part, codes);
      if (packing_.element == Element::kI4) return QuantizeI4(part, codes);
      const int most = packing_.element == Element::kU8 ? 255 : 15;
      return QuantizeWithZero(part, most, codes);
    };
    TC_ASSIGN_OR_RETURN(const RowScale found, quantize());
    scales_[g] = found.scale;
    zero_ = found.zero;
  }
  return {};
}

void RowWriter::Write(size_t row_idx) const {
  if (to_.scale != nullptr && num_groups_ > 0) {
    const size_t num_bytes = num_groups_ * sizeof(uint16_t);
    std::memcpy(to_.scale + row_idx * num_bytes, scales_.data(), num_bytes);
  }
  if (to_.zero != nullptr && packing_.has_zero) {
    const auto zero = static_cast<int8_t>(zero_);
    if (has_nibbles()) {
      WriteNibbles(row_idx, {&zero, 1}, to_.zero);
    } else {
      to_.zero[row_idx] = static_cast<std::byte>(zero_);
    }
  }
  if (to_.weight == nullptr) return;
  if (packing_.group == 0) {
    const size_t num_bytes = halves_.size() * sizeof(uint16_t);
    std::memcpy(to_.weight + row_idx * num_bytes, halves_.data(), num_bytes);
  } else if (has_nibbles()) {
    WriteNibbles(row_idx, codes_, to_.weight);
  } else {
    std::memcpy(to_.weight + row_idx * codes_.size(), codes_.data(),
                codes_.size());
  }
}

// A row of an odd number begins in the upper half of the last one's byte, so
// that rows come in their order.
void RowWriter::WriteNibbles(size_t row_idx, std::span<const int8_t> codes,
                             std::byte* to) const {
  const auto nibble = [&](size_t i) {
    return static_cast<uint8_t>(static_cast<uint8_t>(codes[i]) & 15u);
  };
  const size_t first = row_idx * codes.size();
  size_t i = 0;
  if (first % 2 == 1) {
    to[first / 2] |= static_cast<std::byte>(nibble(i++) << 4);
  }
  std::byte* next = to + (first + i) / 2;
  for (; i + 1 < codes.size(); i += 2) {
    *next++ = static_cast<std::byte>(nibble(i) | nibble(i + 1) << 4);
  }
  if (i < codes.size()) *next = static_cast<std::byte>(nibble(i));
}

void RowWriter::Measure(std::span<const float> x) {
  if (packing_.group == 0) {
    for (size_t i = 0; i < x.size(); ++i) decoded_[i] = FiniteHalf(halves_[i]);
  }
  for (size_t g = 0; g < num_groups_; ++g) {
    const float scale = FiniteHalf(scales_[g]);
    for (size_t i = g * packing_.group; i < (g + 1) * packing_.group; ++i) {
      const int code =
          packing_.has_zero ? static_cast<uint8_t>(codes_[i]) : codes_[i];
      decoded_[i] = static_cast<float>(code - zero_) * scale;
    }
  }
  // In two parts, for two sums at a time.
  std::array<double, 2> errors = {};
  std::array<double, 2> signals = {};
  for (size_t i = 0; i < x.size(); ++i) {
    const double difference = double{decoded_[i]} - double{x[i]};
    errors[i % 2] += difference * difference;
    signals[i % 2] += double{x[i]} * double{x[i]};
  }
  error_ += errors[0] + errors[1];
  signal_ += signals[0] + signals[1];
}

// `count` columns of the view from `first` on, as rows of `tile`. A few of its
// rows at a time, so that neither reads nor writes are far apart.
void Transpose(const TensorView& view, size_t first, size_t count,
               std::span<float> tile) {
  constexpr size_t kRowsAtOnce = 32;
  const size_t num_columns = view.shape.num_rows();
  const size_t offset = thermocline::BytesOf(view.dtype, first);
  std::vector<float> piece(kRowsAtOnce * count);
  for (size_t i = 0; i < num_columns; i += kRowsAtOnce) {
    const size_t num_rows = std::min(kRowsAtOnce, num_columns - i);
    for (size_t r = 0; r < num_rows; ++r) {
      Decode(view.dtype, view.row(i + r) + offset,
             std::span(piece).subspan(r * count, count));
    }
    for (size_t j = 0; j < count; ++j) {
      float* to = tile.data() + j * num_columns + i;
      for (size_t r = 0; r < num_rows; ++r) to[r] = piece[r * count + j];
    }
  }
}

// As many columns of the view at a time as a block of it has: they become rows.
Status PackTransposed(const MatrixSource& source, RowWriter& writer) {
  TC_CHECK(source.order.empty());
  const size_t most =
      std::max<size_t>(InfoOf(source.view.dtype).block_elems, size_t{kBlock});
  const size_t num_columns = source.columns();
  std::vector<float> tile(most * num_columns);
  for (size_t first = 0; first < source.rows(); first += most) {
    const size_t count = std::min(most, source.rows() - first);
    Transpose(source.view, first, count, tile);
    for (size_t j = 0; j < count; ++j) {
      TC_RETURN_IF_ERROR(writer.AddFloats(
          first + j, std::span(tile).subspan(j * num_columns, num_columns)));
    }
  }
  return {};
}

}  // namespace

Status PackMatrix(const MatrixSource& source, const Packing& packing,
                  const PackedMemory& to, double* relative_error) {
  RowWriter writer(packing, source.columns(), to, relative_error != nullptr);
  if (source.is_transposed) {
    TC_RETURN_IF_ERROR(PackTransposed(source, writer));
  } else {
    for (size_t i = 0; i < source.rows(); ++i) {
      const size_t row = source.order.empty() ? i : source.order[i];
      const Status added =
          writer.Add(i, source.view.dtype, source.view.row(row));
      if (!added.has_value()) {
        return Annotate(fmt::format("row {}", row), added.error());
      }
    }
  }
  if (relative_error != nullptr) *relative_error = writer.relative_error();
  return {};
}

}  // namespace thermocline::npu
