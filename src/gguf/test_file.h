// For tests: GGUF bytes put together with nothing checked, so that files can be
// wrong in any way, and with the place of every count known.
#ifndef THERMOCLINE_GGUF_TEST_FILE_H_
#define THERMOCLINE_GGUF_TEST_FILE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf.h"
#include "tensor/dtype.h"

namespace thermocline::gguf {

// The bytes of plain values as they lie in a file.
template <typename T>
std::string Raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
inline std::string RawText(std::string_view text) {
  return Raw(uint64_t{text.size()}) + std::string(text);
}

// A field of a built file that a reader must not trust.
struct CountField {
  size_t position;
  size_t num_bytes;  // 4 or 8
  std::string what;
};

class TestFile {
 public:
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> num_keys;     // what is there, unless set
  std::optional<uint64_t> num_tensors;  // likewise
  uint64_t alignment = 32;

  // Sets a key to a value given as bytes; replaces an earlier one.
  TestFile& Set(const std::string& key, ValueType type, std::string value) {
    Remove(key);
    return Append(key, type, std::move(value));
  }
  TestFile& SetU32(const std::string& key, uint32_t value) {
    return Set(key, ValueType::kU32, Raw(value));
  }
  TestFile& SetF32(const std::string& key, float value) {
    return Set(key, ValueType::kF32, Raw(value));
  }
  TestFile& SetBool(const std::string& key, bool value) {
    return Set(key, ValueType::kBool, Raw(uint8_t{value}));
  }
  TestFile& SetText(const std::string& key, std::string_view value) {
    return Set(key, ValueType::kString, RawText(value));
  }
  template <typename T>
  TestFile& SetNumbers(const std::string& key, ValueType elem_type,
                       const std::vector<T>& values) {
    std::string bytes = Raw(elem_type) + Raw(uint64_t{values.size()});
    for (T value : values) bytes += Raw(value);
    return Set(key, ValueType::kArray, bytes);
  }
  TestFile& SetTexts(const std::string& key,
                     const std::vector<std::string>& values) {
    std::string bytes = Raw(ValueType::kString) + Raw(uint64_t{values.size()});
    for (const std::string& value : values) bytes += RawText(value);
    return Set(key, ValueType::kArray, bytes);
  }
  // Adds a key even if it is already there.
  TestFile& Append(const std::string& key, ValueType type, std::string value) {
    keys_.push_back({key, type, std::move(value)});
    return *this;
  }
  TestFile& Remove(const std::string& key) {
    std::erase_if(keys_, [&](const Key& k) { return k.name == key; });
    return *this;
  }

  // Adds a tensor behind the last one; replaces an earlier one. Its bytes are
  // zero unless given.
  TestFile& SetTensor(const std::string& name, DType dtype,
                      std::vector<uint64_t> ne, std::string data = "") {
    RemoveTensor(name);
    Tensor tensor{name, ne, static_cast<uint32_t>(dtype), std::nullopt, data};
    if (data.empty()) {
      uint64_t num_elems = 1;
      for (uint64_t extent : ne) num_elems *= extent;
      tensor.data.resize(BytesOf(dtype, num_elems));
    }
    tensors_.push_back(std::move(tensor));
    return *this;
  }
  // Adds a tensor's description as it is, without data.
  TestFile& AppendTensorInfo(const std::string& name, std::vector<uint64_t> ne,
                             uint32_t dtype, uint64_t offset) {
    tensors_.push_back({name, std::move(ne), dtype, offset, ""});
    return *this;
  }
  TestFile& RemoveTensor(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& t) { return t.name == name; });
    return *this;
  }
  // Bytes behind all tensors.
  TestFile& AppendData(size_t num_bytes) {
    tail_.append(num_bytes, '\0');
    return *this;
  }

  std::string Bytes() {
    fields_.clear();
    std::string out = magic + Raw(version);
    Count(out, "number of tensors", num_tensors.value_or(tensors_.size()));
    Count(out, "number of keys", num_keys.value_or(keys_.size()));
    for (const Key& key : keys_) AddKey(out, key);
    std::string data;
    for (const Tensor& tensor : tensors_) AddTensor(out, tensor, data);
    if (!tensors_.empty() || !tail_.empty()) Pad(out);
    return out + data + tail_;
  }

  // The counts, sizes and offsets of what Bytes() returned last.
  const std::vector<CountField>& fields() const { return fields_; }

 private:
  struct Key {
    std::string name;
    ValueType type;
    std::string value;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> ne;
    uint32_t dtype;
    std::optional<uint64_t> offset;
    std::string data;
  };

  template <typename T>
  void Count(std::string& out, const std::string& what, T value) {
    fields_.push_back({out.size(), sizeof(T), what});
    out += Raw(value);
  }
  void Pad(std::string& out) const {
    if (alignment != 0) {
      out.resize((out.size() + alignment - 1) / alignment * alignment);
    }
  }
  void AddKey(std::string& out, const Key& key) {
    Count(out, "length of key " + key.name, uint64_t{key.name.size()});
    out += key.name;
    Count(out, "type of " + key.name, static_cast<uint32_t>(key.type));
    if (key.type == ValueType::kString) {
      fields_.push_back({out.size(), 8, "length of the value of " + key.name});
    } else if (key.type == ValueType::kArray) {
      fields_.push_back({out.size(), 4, "element type of " + key.name});
      fields_.push_back({out.size() + 4, 8, "elements of " + key.name});
      fields_.push_back({out.size() + 12, 8, "first element of " + key.name});
    }
    out += key.value;
  }
  void AddTensor(std::string& out, const Tensor& tensor, std::string& data) {
    Count(out, "length of name " + tensor.name, uint64_t{tensor.name.size()});
    out += tensor.name;
    Count(out, "rank of " + tensor.name,
          static_cast<uint32_t>(tensor.ne.size()));
    for (uint64_t extent : tensor.ne) {
      Count(out, "extent of " + tensor.name, extent);
    }
    Count(out, "type of " + tensor.name, tensor.dtype);
    Count(out, "offset of " + tensor.name,
          tensor.offset.value_or(uint64_t{data.size()}));
    data += tensor.data;
    Pad(data);
  }

  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
  std::string tail_;
  std::vector<CountField> fields_;
};

// A File over a copy of `bytes` that has exactly their size, so that a
// sanitizer sees every read past the end.
struct ParsedCopy {
  explicit ParsedCopy(std::string_view bytes)
      : copy(new std::byte[bytes.size()]), file(nullptr) {
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    file = File::Parse({copy.get(), bytes.size()}, "test.gguf");
  }
  std::unique_ptr<std::byte[]> copy;
  Result<std::unique_ptr<const File>> file;
};

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_TEST_FILE_H_
