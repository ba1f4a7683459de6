#include "tensor/codec.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/block_codec.h"

namespace thermocline {
namespace {

// Calls visit(Block{}) for the struct of a block-quantised computable type.
template <typename Visitor>
void VisitBlockType(DType dtype, Visitor&& visit) {
  switch (dtype) {
    case DType::kQ8_0:
      return visit(BlockQ8_0{});
    case DType::kQ4_0:
      return visit(BlockQ4_0{});
    case DType::kQ4_1:
      return visit(BlockQ4_1{});
    case DType::kQ5_0:
      return visit(BlockQ5_0{});
    case DType::kQ5_1:
      return visit(BlockQ5_1{});
    case DType::kQ4_K:
      return visit(BlockQ4_K{});
    case DType::kQ5_K:
      return visit(BlockQ5_K{});
    case DType::kQ6_K:
      return visit(BlockQ6_K{});
    default:
      TC_CHECK(false && "a computable block type");
  }
}

template <typename T>
T LoadAt(const std::byte* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void StoreAt(std::byte* bytes, size_t index, const T& value) {
  std::memcpy(bytes + index * sizeof(T), &value, sizeof(T));
}

void DequantizeFloats(DType dtype, const std::byte* src, std::span<float> dst) {
  if (dtype == DType::kF32) {
    if (!dst.empty()) std::memcpy(dst.data(), src, dst.size_bytes());
    return;
  }
  const auto convert = dtype == DType::kF16 ? F16ToF32 : BF16ToF32;
  for (size_t i = 0; i < dst.size(); ++i) {
    dst[i] = convert(LoadAt<uint16_t>(src, i));
  }
}

void QuantizeFloats(DType dtype, std::span<const float> src, std::byte* dst) {
  if (dtype == DType::kF32) {
    if (!src.empty()) std::memcpy(dst, src.data(), src.size_bytes());
    return;
  }
  const auto convert = dtype == DType::kF16 ? F32ToF16 : F32ToBF16;
  for (size_t i = 0; i < src.size(); ++i) StoreAt(dst, i, convert(src[i]));
}

bool IsFiniteF16(uint16_t half) { return (half & 0x7c00u) != 0x7c00u; }

// Overloads by the fields that a block has.
template <typename Block>
bool HasFiniteScales(const Block& block) {
  bool finite = IsFiniteF16(block.d);
  if constexpr (requires { block.m; }) finite &= IsFiniteF16(block.m);
  if constexpr (requires { block.dmin; }) finite &= IsFiniteF16(block.dmin);
  return finite;
}

bool IsFiniteElem(DType dtype, const std::byte* data, uint64_t index) {
  switch (dtype) {
    case DType::kF32:
      return std::isfinite(LoadAt<float>(data, index));
    case DType::kF16:
      return IsFiniteF16(LoadAt<uint16_t>(data, index));
    default:
      return (LoadAt<uint16_t>(data, index) & 0x7f80u) != 0x7f80u;
  }
}

// FindNonFinite of one row.
std::optional<uint64_t> FindInRow(DType dtype, const std::byte* row,
                                  uint64_t num_elems) {
  if (IsFloat(dtype)) {
    for (uint64_t i = 0; i < num_elems; ++i) {
      if (!IsFiniteElem(dtype, row, i)) return i;
    }
    return std::nullopt;
  }
  const uint64_t block_elems = InfoOf(dtype).block_elems;
  std::optional<uint64_t> found;
  VisitBlockType(dtype, [&]<typename Block>(Block) {
    for (uint64_t i = 0; i < num_elems / block_elems && !found; ++i) {
      if (!HasFiniteScales(LoadAt<Block>(row, i))) found = i * block_elems;
    }
  });
  return found;
}

}  // namespace

void DequantizeRow(DType dtype, const std::byte* src, std::span<float> dst) {
  const DTypeInfo& info = InfoOf(dtype);
  TC_CHECK(info.can_compute && dst.size() % info.block_elems == 0);
  if (IsFloat(dtype)) return DequantizeFloats(dtype, src, dst);
  VisitBlockType(dtype, [&]<typename Block>(Block) {
    for (size_t i = 0; i < dst.size() / info.block_elems; ++i) {
      DecodeBlock(LoadAt<Block>(src, i), &dst[i * info.block_elems]);
    }
  });
}

void QuantizeRow(DType dtype, std::span<const float> src, std::byte* dst) {
  const DTypeInfo& info = InfoOf(dtype);
  TC_CHECK(info.can_compute && src.size() % info.block_elems == 0);
  if (IsFloat(dtype)) return QuantizeFloats(dtype, src, dst);
  VisitBlockType(dtype, [&]<typename Block>(Block) {
    for (size_t i = 0; i < src.size() / info.block_elems; ++i) {
      Block block;
      EncodeBlock(&src[i * info.block_elems], block);
      StoreAt(dst, i, block);
    }
  });
}

std::optional<uint64_t> FindNonFinite(const TensorView& tensor) {
  TC_CHECK(InfoOf(tensor.dtype).can_compute);
  const uint64_t width = tensor.shape.ne[0];
  for (uint64_t row = 0; row < tensor.shape.num_rows(); ++row) {
    const auto found = FindInRow(tensor.dtype, tensor.row(row), width);
    if (found) return row * width + *found;
  }
  return std::nullopt;
}

}  // namespace thermocline
