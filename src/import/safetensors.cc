#include "import/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/math.h"
#include "base/quote.h"
#include "import/json.h"
#include "import/lfs_pointer.h"

namespace thermocline::importer {
namespace {

struct ElemType {
  std::string_view name;
  uint64_t num_bytes;
  std::optional<DType> dtype;
};
constexpr ElemType kElemTypes[] = {
    {"F32", 4, DType::kF32},     {"F16", 2, DType::kF16},
    {"BF16", 2, DType::kBF16},   {"F64", 8, std::nullopt},
    {"I64", 8, std::nullopt},    {"I32", 4, std::nullopt},
    {"I16", 2, std::nullopt},    {"I8", 1, std::nullopt},
    {"U64", 8, std::nullopt},    {"U32", 4, std::nullopt},
    {"U16", 2, std::nullopt},    {"U8", 1, std::nullopt},
    {"BOOL", 1, std::nullopt},   {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt}};

constexpr size_t kMaxRank = 16;
constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

// Non-negative integers that fit int64: so their sums and differences of two
// are safe.
Result<std::vector<uint64_t>> ReadSizes(const JsonFields& fields,
                                        const char* key, size_t max_size) {
  const Json* array = fields.Find(key);
  if (array == nullptr || !array->is_array() || array->size() > max_size) {
    return fields.Wrong(
        key, fmt::format("must be a list of at most {} numbers", max_size));
  }
  std::vector<uint64_t> sizes;
  for (const Json& elem : *array) {
    if (!elem.is_number_unsigned() || elem.get<uint64_t>() > kMaxInt) {
      return fields.Wrong(key, "must hold integers from 0 to 2^63 - 1");
    }
    sizes.push_back(elem.get<uint64_t>());
  }
  return sizes;
}

// The bytes of a tensor of this type and shape; nullopt if they overflow.
std::optional<uint64_t> BytesNeeded(const ElemType& type,
                                    std::span<const uint64_t> shape) {
  std::optional<uint64_t> num_bytes = type.num_bytes;
  for (const uint64_t extent : shape) {
    if (num_bytes) num_bytes = CheckedMul(*num_bytes, extent);
  }
  return num_bytes;
}

Result<SafeTensor> ReadTensor(const std::string& name, const Json& entry,
                              std::span<const std::byte> data,
                              const std::string& path) {
  const std::string where = fmt::format("{}: tensor {}", path, Quote(name));
  TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(entry, where));
  SafeTensor tensor;
  tensor.name = name;
  TC_ASSIGN_OR_RETURN(tensor.dtype_name, fields.RequireString("dtype"));
  const auto* const type =
      std::ranges::find(kElemTypes, tensor.dtype_name, &ElemType::name);
  if (type == std::end(kElemTypes)) {
    return Fail(ErrorCode::kUnsupported, "{}: unknown element type {}", where,
                Quote(tensor.dtype_name));
  }
  tensor.dtype = type->dtype;
  TC_ASSIGN_OR_RETURN(tensor.shape, ReadSizes(fields, "shape", kMaxRank));
  TC_ASSIGN_OR_RETURN(const auto offsets, ReadSizes(fields, "data_offsets", 2));
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      offsets[1] > data.size()) {
    return fields.Wrong("data_offsets",
                        fmt::format("does not lie in the {} bytes of data (a "
                                    "download that was cut off?)",
                                    data.size()));
  }
  const uint64_t num_bytes = offsets[1] - offsets[0];
  if (BytesNeeded(*type, tensor.shape) != num_bytes) {
    return fields.Wrong(
        "data_offsets",
        fmt::format("gives {} bytes, which do not fit the shape", num_bytes));
  }
  tensor.bytes = data.subspan(offsets[0], num_bytes);
  return tensor;
}

// Tensors in the order of their bytes must follow each other exactly.
Status CheckCoverage(std::span<const SafeTensor> tensors,
                     std::span<const std::byte> data, const std::string& path) {
  const std::byte* expected = data.data();
  for (const SafeTensor& tensor : tensors) {
    if (tensor.bytes.data() != expected) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: tensor {} overlaps another, or leaves a gap before it",
                  path, Quote(tensor.name));
    }
    expected += tensor.bytes.size();
  }
  if (expected != data.data() + data.size()) {
    return Fail(ErrorCode::kCorrupt, "{}: {} bytes belong to no tensor", path,
                data.data() + data.size() - expected);
  }
  return {};
}

Result<std::string_view> HeaderOf(std::span<const std::byte> file,
                                  const std::string& path) {
  static_assert(std::endian::native == std::endian::little);
  TC_RETURN_IF_ERROR(CheckDownloaded(
      {reinterpret_cast<const char*>(file.data()), file.size()}, path));
  uint64_t num_bytes = 0;
  if (file.size() < sizeof(num_bytes)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: {} bytes are too few for a safetensors file", path,
                file.size());
  }
  std::memcpy(&num_bytes, file.data(), sizeof(num_bytes));
  if (num_bytes > kMaxHeaderBytes ||
      num_bytes > file.size() - sizeof(num_bytes)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: the header claims {} bytes, the file has {} (not a "
                "safetensors file, or cut off?)",
                path, num_bytes, file.size());
  }
  return std::string_view(
      reinterpret_cast<const char*>(file.data()) + sizeof(num_bytes),
      num_bytes);
}

}  // namespace

Result<std::vector<SafeTensor>> ParseSafetensors(
    std::span<const std::byte> file, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto header_text, HeaderOf(file, path));
  const auto data = file.subspan(sizeof(uint64_t) + header_text.size());
  TC_ASSIGN_OR_RETURN(const Json header, ParseJson(header_text, path));
  TC_RETURN_IF_ERROR(JsonFields::Of(header, path));
  std::vector<SafeTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    TC_ASSIGN_OR_RETURN(auto tensor, ReadTensor(name, entry, data, path));
    tensors.push_back(std::move(tensor));
  }
  // Of two at one place the empty one comes first.
  std::ranges::sort(tensors, {}, [](const SafeTensor& tensor) {
    return std::pair(tensor.bytes.data(), tensor.bytes.size());
  });
  TC_RETURN_IF_ERROR(CheckCoverage(tensors, data, path));
  return tensors;
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile opened;
  TC_ASSIGN_OR_RETURN(opened.file_, os::MappedFile::Open(path));
  TC_ASSIGN_OR_RETURN(opened.tensors_,
                      ParseSafetensors(opened.file_.bytes(), path));
  return opened;
}

}  // namespace thermocline::importer
