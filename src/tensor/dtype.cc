#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"
#include "base/math.h"

namespace thermocline {
namespace {

constexpr std::array kDTypes = {
    DTypeInfo{DType::kF32, "F32", 1, 4, true},
    DTypeInfo{DType::kF16, "F16", 1, 2, true},
    DTypeInfo{DType::kQ4_0, "Q4_0", 32, 18, true},
    DTypeInfo{DType::kQ4_1, "Q4_1", 32, 20, true},
    DTypeInfo{DType::kQ5_0, "Q5_0", 32, 22, true},
    DTypeInfo{DType::kQ5_1, "Q5_1", 32, 24, true},
    DTypeInfo{DType::kQ8_0, "Q8_0", 32, 34, true},
    DTypeInfo{DType::kQ8_1, "Q8_1", 32, 36, false},
    DTypeInfo{DType::kQ2_K, "Q2_K", 256, 84, false},
    DTypeInfo{DType::kQ3_K, "Q3_K", 256, 110, false},
    DTypeInfo{DType::kQ4_K, "Q4_K", 256, 144, true},
    DTypeInfo{DType::kQ5_K, "Q5_K", 256, 176, true},
    DTypeInfo{DType::kQ6_K, "Q6_K", 256, 210, true},
    DTypeInfo{DType::kQ8_K, "Q8_K", 256, 292, false},
    DTypeInfo{DType::kIQ2_XXS, "IQ2_XXS", 256, 66, false},
    DTypeInfo{DType::kIQ2_XS, "IQ2_XS", 256, 74, false},
    DTypeInfo{DType::kIQ3_XXS, "IQ3_XXS", 256, 98, false},
    DTypeInfo{DType::kIQ1_S, "IQ1_S", 256, 50, false},
    DTypeInfo{DType::kIQ4_NL, "IQ4_NL", 32, 18, false},
    DTypeInfo{DType::kIQ3_S, "IQ3_S", 256, 110, false},
    DTypeInfo{DType::kIQ2_S, "IQ2_S", 256, 82, false},
    DTypeInfo{DType::kIQ4_XS, "IQ4_XS", 256, 136, false},
    DTypeInfo{DType::kI8, "I8", 1, 1, false},
    DTypeInfo{DType::kI16, "I16", 1, 2, false},
    DTypeInfo{DType::kI32, "I32", 1, 4, false},
    DTypeInfo{DType::kI64, "I64", 1, 8, false},
    DTypeInfo{DType::kF64, "F64", 1, 8, false},
    DTypeInfo{DType::kIQ1_M, "IQ1_M", 256, 56, false},
    DTypeInfo{DType::kBF16, "BF16", 1, 2, true},
    DTypeInfo{DType::kTQ1_0, "TQ1_0", 256, 54, false},
    DTypeInfo{DType::kTQ2_0, "TQ2_0", 256, 66, false},
    DTypeInfo{DType::kMXFP4, "MXFP4", 32, 17, false},
};

// Position in kDTypes by type id; -1 for ids without a type.
constexpr auto kIndexOfId = [] {
  std::array<int8_t, 40> index{};
  index.fill(-1);
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    index[static_cast<uint32_t>(kDTypes[i].dtype)] = static_cast<int8_t>(i);
  }
  return index;
}();

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

const DTypeInfo* FindDType(uint32_t id) {
  if (id >= kIndexOfId.size() || kIndexOfId[id] < 0) return nullptr;
  return &kDTypes[static_cast<size_t>(kIndexOfId[id])];
}

const DTypeInfo& InfoOf(DType dtype) {
  const DTypeInfo* info = FindDType(static_cast<uint32_t>(dtype));
  TC_CHECK(info != nullptr);
  return *info;
}

std::optional<DType> ParseDType(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (EqualsIgnoringCase(info.name, name)) return info.dtype;
  }
  return std::nullopt;
}

size_t BytesOf(DType dtype, uint64_t num_elems) {
  const DTypeInfo& info = InfoOf(dtype);
  TC_CHECK(num_elems % info.block_elems == 0);
  const auto num_bytes =
      CheckedMul(num_elems / info.block_elems, info.block_bytes);
  TC_CHECK(num_bytes.has_value());
  return *num_bytes;
}

}  // namespace thermocline
