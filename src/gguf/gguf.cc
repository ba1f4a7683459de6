#include "gguf/gguf.h"

#include "base/check.h"
#include "base/quote.h"

namespace thermocline::gguf {

std::string_view NameOf(Container container) {
  return container == Container::kPowerInfer ? "PWRI" : "GGUF";
}

namespace {

std::string DescribeType(const KeyValue& kv) {
  if (const auto* large = std::get_if<uint64_t>(&kv.value)) {
    return fmt::format("u64 {}, above 2^63 - 1", *large);
  }
  if (kv.type != ValueType::kArray) return std::string(NameOf(kv.type));
  const Array& array = std::get<Array>(kv.value);
  return fmt::format("an array of {} {}", array.size(),
                     NameOf(array.elem_type));
}

// The value as T if the key is there; kCorrupt when it holds something else.
template <typename T>
Result<std::optional<T>> Typed(const File& file, std::string_view key,
                               std::string_view expected) {
  const KeyValue* kv = file.Find(key);
  if (kv == nullptr) return std::optional<T>();
  const T* value = std::get_if<T>(&kv->value);
  if (value == nullptr) {
    return Fail(ErrorCode::kCorrupt, "{}: key {} is {}; expected {}",
                file.path(), Quote(key), DescribeType(*kv), expected);
  }
  return std::optional<T>(*value);
}

}  // namespace

std::string_view NameOf(ValueType type) {
  switch (type) {
    case ValueType::kU8:
      return "u8";
    case ValueType::kI8:
      return "i8";
    case ValueType::kU16:
      return "u16";
    case ValueType::kI16:
      return "i16";
    case ValueType::kU32:
      return "u32";
    case ValueType::kI32:
      return "i32";
    case ValueType::kF32:
      return "f32";
    case ValueType::kBool:
      return "bool";
    case ValueType::kString:
      return "string";
    case ValueType::kArray:
      return "array";
    case ValueType::kU64:
      return "u64";
    case ValueType::kI64:
      return "i64";
    case ValueType::kF64:
      return "f64";
  }
  TC_CHECK(false && "not a ValueType");
}

size_t Array::size() const {
  return std::visit([](const auto& v) { return v.size(); }, values);
}

TensorView File::Tensor(std::string_view name) const {
  const TensorInfo* info = FindTensor(name);
  if (info == nullptr) return {};
  return {info->dtype, info->shape, info->data};
}

uint64_t File::num_held_bytes() const {
  if (!held().any()) return 0;
  if (held().left_out.empty()) return num_file_bytes();
  uint64_t num_bytes = 0;
  for (const TensorInfo& info : tensors()) {
    if (info.data != nullptr) num_bytes += info.num_bytes;
  }
  return num_bytes;
}

Result<std::optional<int64_t>> File::Int(std::string_view key) const {
  return Typed<int64_t>(*this, key, "an integer");
}

Result<std::optional<double>> File::Float(std::string_view key) const {
  return Typed<double>(*this, key, "f32 or f64");
}

Result<std::optional<bool>> File::Bool(std::string_view key) const {
  return Typed<bool>(*this, key, "bool");
}

Result<std::optional<std::string>> File::String(std::string_view key) const {
  return Typed<std::string>(*this, key, "string");
}

}  // namespace thermocline::gguf
