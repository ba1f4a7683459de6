#include "gguf/parse_value.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gguf/parse.h"

namespace thermocline::gguf {
namespace {

// Integers are read as int64 where that holds them.
template <typename T>
bool FitsInt64(T wire) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    return wire <= uint64_t{std::numeric_limits<int64_t>::max()};
  }
  return true;
}

// Bools are one byte that is 0 or 1.
template <typename T>
Status CheckRange(ValueType type, T wire) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    if (type == ValueType::kBool && wire > 1) {
      return Fail(ErrorCode::kCorrupt,
                  "a bool is the byte {}; only 0 and 1 are allowed", wire);
    }
  }
  return {};
}

template <typename T>
Status ReadScalar(ByteReader& reader, KeyValue& kv) {
  TC_ASSIGN_OR_RETURN(const T wire, reader.Read<T>());
  TC_RETURN_IF_ERROR(CheckRange(kv.type, wire));
  if constexpr (std::is_floating_point_v<T>) {
    kv.value = static_cast<double>(wire);
  } else if (kv.type == ValueType::kBool) {
    kv.value = wire != 0;
  } else if (!FitsInt64(wire)) {
    kv.value = static_cast<uint64_t>(wire);
  } else {
    kv.value = static_cast<int64_t>(wire);
  }
  return {};
}

template <typename T>
Result<Array> ReadNumbers(ByteReader& reader, ValueType type, uint64_t count) {
  // No overflow: count is at most kMaxArrayElems.
  TC_ASSIGN_OR_RETURN(const auto bytes, reader.ReadBytes(count * sizeof(T)));
  bool all_fit = true;
  for (uint64_t i = 0; i < count; ++i) {
    T wire;
    std::memcpy(&wire, bytes.data() + i * sizeof(T), sizeof(T));
    TC_RETURN_IF_ERROR(CheckRange(type, wire));
    all_fit = all_fit && FitsInt64(wire);
  }
  if (!all_fit) return Array{type, Numbers<uint64_t>(type, bytes)};
  using Read = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  return Array{type, Numbers<Read>(type, bytes)};
}

Result<Array> ReadStrings(ByteReader& reader, uint64_t count) {
  // The least that a string takes is its length.
  if (count > reader.remaining() / sizeof(uint64_t)) {
    return Fail(ErrorCode::kCorrupt,
                "an array of {} strings cannot fit into the {} bytes that are "
                "left of the file (a truncated download?)",
                count, reader.remaining());
  }
  std::vector<std::string> values;
  values.reserve(count);  // growing would take twice that for a moment
  for (uint64_t i = 0; i < count; ++i) {
    auto text = reader.ReadString(kMaxStringBytes);
    if (!text) return Annotate(fmt::format("string {}", i), text.error());
    values.emplace_back(*text);
  }
  return Array{ValueType::kString, std::move(values)};
}

Result<ValueType> ReadValueType(ByteReader& reader) {
  TC_ASSIGN_OR_RETURN(const uint32_t id, reader.Read<uint32_t>());
  if (id > static_cast<uint32_t>(ValueType::kF64)) {
    return Fail(ErrorCode::kCorrupt, "unknown value type {}", id);
  }
  return static_cast<ValueType>(id);
}

Result<Array> ReadArray(ByteReader& reader) {
  TC_ASSIGN_OR_RETURN(const ValueType type, ReadValueType(reader));
  TC_ASSIGN_OR_RETURN(const uint64_t count, reader.Read<uint64_t>());
  if (type == ValueType::kArray) {
    return Fail(ErrorCode::kUnsupported, "an array of arrays");
  }
  if (count > kMaxArrayElems) {
    return Fail(ErrorCode::kCorrupt,
                "an array of {} elements; at most {} are allowed", count,
                kMaxArrayElems);
  }
  if (type == ValueType::kString) return ReadStrings(reader, count);
  return WithWireType(
      type, [&]<typename T>(T) { return ReadNumbers<T>(reader, type, count); });
}

}  // namespace

Status ReadTypedValue(ByteReader& reader, KeyValue& kv) {
  TC_ASSIGN_OR_RETURN(kv.type, ReadValueType(reader));
  if (kv.type == ValueType::kArray) {
    TC_ASSIGN_OR_RETURN(kv.value, ReadArray(reader));
    return {};
  }
  if (kv.type == ValueType::kString) {
    TC_ASSIGN_OR_RETURN(const auto text, reader.ReadString(kMaxStringBytes));
    kv.value = std::string(text);
    return {};
  }
  return WithWireType(kv.type,
                      [&]<typename T>(T) { return ReadScalar<T>(reader, kv); });
}

}  // namespace thermocline::gguf
