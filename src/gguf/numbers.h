// The numbers of a metadata array, in the width that the file has them in.
#ifndef THERMOCLINE_GGUF_NUMBERS_H_
#define THERMOCLINE_GGUF_NUMBERS_H_

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"

namespace thermocline::gguf {

enum class ValueType : uint32_t {  // the format's numbers
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// Calls f(T{}) with the type that a number or bool has in the file.
// Requires a type that is neither string nor array.
template <typename F>
auto WithWireType(ValueType type, F&& f) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kBool:
      return f(uint8_t{});
    case ValueType::kI8:
      return f(int8_t{});
    case ValueType::kU16:
      return f(uint16_t{});
    case ValueType::kI16:
      return f(int16_t{});
    case ValueType::kU32:
      return f(uint32_t{});
    case ValueType::kI32:
      return f(int32_t{});
    case ValueType::kU64:
      return f(uint64_t{});
    case ValueType::kF32:
      return f(float{});
    case ValueType::kF64:
      return f(double{});
    default:
      return f(int64_t{});
  }
}

// A list of int64 or double to read, that takes the file's bytes and not eight
// for each: an array is as long as its maker likes.
template <typename T>
class Numbers {
 public:
  class Iterator {
   public:
    // NOLINTBEGIN(readability-identifier-naming): names of the standard
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = ptrdiff_t;
    using pointer = void;
    using reference = T;
    // NOLINTEND(readability-identifier-naming)

    Iterator() = default;
    Iterator(const Numbers* numbers, size_t place)
        : numbers_(numbers), place_(place) {}
    T operator*() const { return (*numbers_)[place_]; }
    Iterator& operator++() {
      ++place_;
      return *this;
    }
    Iterator operator++(int) { return {numbers_, place_++}; }
    bool operator==(const Iterator&) const = default;

   private:
    const Numbers* numbers_ = nullptr;
    size_t place_ = 0;
  };
  // NOLINTBEGIN(readability-identifier-naming): names of the standard
  using value_type = T;
  using const_iterator = Iterator;
  // NOLINTEND(readability-identifier-naming)

  Numbers() = default;
  // Implicit: whoever writes a file has a vector.
  Numbers(const std::vector<T>& values)  // NOLINT(google-explicit-constructor)
      : bytes_(values.size() * sizeof(T)) {
    if (!values.empty()) {
      std::memcpy(bytes_.data(), values.data(), bytes_.size());
    }
  }
  // `bytes` hold numbers of `type`, each in T's range: integers and bools in
  // int64, floats in double (CHECKed).
  Numbers(ValueType type, std::span<const std::byte> bytes)
      : type_(type),
        elem_bytes_(WithWireType(
            type, []<typename Wire>(Wire) { return sizeof(Wire); })),
        bytes_(bytes.begin(), bytes.end()) {
    TC_CHECK(bytes.size() % elem_bytes_ == 0);
    TC_CHECK(WithWireType(type, []<typename Wire>(Wire) {
      return std::floating_point<Wire> == std::floating_point<T>;
    }));
  }

  size_t size() const { return bytes_.size() / elem_bytes_; }
  bool empty() const { return bytes_.empty(); }

  // i < size().
  T operator[](size_t i) const {
    TC_DCHECK(i < size());
    return WithWireType(type_, [&]<typename Wire>(Wire wire) {
      std::memcpy(&wire, bytes_.data() + i * sizeof(Wire), sizeof(Wire));
      return static_cast<T>(wire);
    });
  }

  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

  // By value, whatever the widths.
  friend bool operator==(const Numbers& a, const Numbers& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  // Eight bytes each: for arrays of a size that somebody checked.
  std::vector<T> ToVector() const { return {begin(), end()}; }

 private:
  ValueType type_ = std::floating_point<T> ? ValueType::kF64 : ValueType::kI64;
  size_t elem_bytes_ = sizeof(T);
  std::vector<std::byte> bytes_;
};

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_NUMBERS_H_
