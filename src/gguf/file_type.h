// The types that a whole file can be quantised to: one element type, or a mix
// of several under one name.
#ifndef THERMOCLINE_GGUF_FILE_TYPE_H_
#define THERMOCLINE_GGUF_FILE_TYPE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/dtype.h"

namespace thermocline::gguf {

inline constexpr int64_t kQuantizationVersion = 2;  // the key's value

// The values are those of general.file_type.
enum class FileType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ8_0 = 7,
  kQ5_0 = 8,
  kQ5_1 = 9,
  kQ4_K_S = 14,
  kQ4_K_M = 15,
  kQ5_K_S = 16,
  kQ5_K_M = 17,
  kQ6_K = 18,
  kBF16 = 32,
};

struct FileTypeInfo {
  std::string_view name;  // as users write it: "Q4_K_M"
  FileType type;
  DType dtype;                   // of most matrices
  std::string_view description;  // for a help page
};

// From small to large; every type once.
std::span<const FileTypeInfo> FileTypes();

const FileTypeInfo& InfoOf(FileType type);

// The smallest one whose matrices mostly have this type: of Q4_K and Q5_K the S
// mix. Requires that there is one (CHECKed).
FileType FileTypeOf(DType dtype);

// The type called `name`, in any case; Q4_K and Q5_K are short for the M mixes.
// Null if there is none.
const FileTypeInfo* FindFileType(std::string_view name);

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_FILE_TYPE_H_
