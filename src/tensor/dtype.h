// Element types of tensors as GGUF numbers them, and their block sizes.
#ifndef THERMOCLINE_TENSOR_DTYPE_H_
#define THERMOCLINE_TENSOR_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace thermocline {

// The values are the type ids of the file format.
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as llama.cpp prints it: "F16", "Q4_K"
  uint32_t block_elems;   // elements per block, > 0
  uint32_t block_bytes;   // bytes per block, > 0
  bool can_compute;       // codec.h and the kernels know it
};

// Null for ids that are unknown, removed or reserved: such tensors cannot even
// be sized, so a file that has one is refused.
const DTypeInfo* FindDType(uint32_t id);

// Requires a value of the enumeration. (CHECKed)
const DTypeInfo& InfoOf(DType dtype);

inline std::string_view NameOf(DType dtype) { return InfoOf(dtype).name; }

// The type whose name is `name`, case-insensitively ("q4_0", "bf16").
std::optional<DType> ParseDType(std::string_view name);

// Bytes of `num_elems` contiguous elements. Requires num_elems % block_elems
// == 0 and no overflow (readers of files check both first). (CHECKed)
size_t BytesOf(DType dtype, uint64_t num_elems);

// F32, F16, BF16: multiplied with float activations. All other computable
// types are block-quantised and meet int8 activations.
inline bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_DTYPE_H_
