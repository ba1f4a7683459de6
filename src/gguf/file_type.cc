#include "gguf/file_type.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"

namespace thermocline::gguf {
namespace {

constexpr FileTypeInfo kFileTypes[] = {
    {"Q4_0", FileType::kQ4_0, DType::kQ4_0, "4 bits, a scale per 32"},
    {"Q4_K_S", FileType::kQ4_K_S, DType::kQ4_K,
     "4 bits with two-level scales, a little Q5_K"},
    {"Q4_K_M", FileType::kQ4_K_M, DType::kQ4_K,
     "Q4_K, half of attn_v and ffn_down Q6_K; the usual choice"},
    {"Q4_1", FileType::kQ4_1, DType::kQ4_1, "4 bits, scale and minimum per 32"},
    {"Q5_0", FileType::kQ5_0, DType::kQ5_0, "5 bits, a scale per 32"},
    {"Q5_K_S", FileType::kQ5_K_S, DType::kQ5_K, "5 bits with two-level scales"},
    {"Q5_K_M", FileType::kQ5_K_M, DType::kQ5_K, "Q5_K, mixed like Q4_K_M"},
    {"Q5_1", FileType::kQ5_1, DType::kQ5_1, "5 bits, scale and minimum per 32"},
    {"Q6_K", FileType::kQ6_K, DType::kQ6_K, "6 bits with two-level scales"},
    {"Q8_0", FileType::kQ8_0, DType::kQ8_0, "8 bits; close to lossless"},
    {"F16", FileType::kF16, DType::kF16, "16 bits"},
    {"BF16", FileType::kBF16, DType::kBF16, "16 bits with the range of F32"},
    {"F32", FileType::kF32, DType::kF32, "32 bits"},
};

struct Alias {
  std::string_view name;
  std::string_view full_name;
};
constexpr Alias kAliases[] = {{"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};

bool EqualInAnyCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::span<const FileTypeInfo> FileTypes() { return kFileTypes; }

const FileTypeInfo& InfoOf(FileType type) {
  const auto* info = std::ranges::find(kFileTypes, type, &FileTypeInfo::type);
  TC_CHECK(info != std::end(kFileTypes));
  return *info;
}

FileType FileTypeOf(DType dtype) {
  const auto* info = std::ranges::find(kFileTypes, dtype, &FileTypeInfo::dtype);
  TC_CHECK(info != std::end(kFileTypes));
  return info->type;
}

const FileTypeInfo* FindFileType(std::string_view name) {
  for (const Alias& alias : kAliases) {
    if (EqualInAnyCase(alias.name, name)) name = alias.full_name;
  }
  for (const FileTypeInfo& info : kFileTypes) {
    if (EqualInAnyCase(info.name, name)) return &info;
  }
  return nullptr;
}

}  // namespace thermocline::gguf
