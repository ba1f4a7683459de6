// GGUF files, version 2 and 3, and PowerInfer's, which differ in the first four
// bytes: metadata and tensors, read from untrusted bytes.
// The format byte by byte: docs/formats/gguf.md.
#ifndef THERMOCLINE_GGUF_GGUF_H_
#define THERMOCLINE_GGUF_GGUF_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "gguf/numbers.h"
#include "os/file.h"
#include "os/memory.h"
#include "tensor/tensor_view.h"

namespace thermocline::gguf {

// Of tensors' places in a file that does not give its own.
inline constexpr uint64_t kDefaultAlignment = 32;

// What the first four bytes say: "GGUF", or "PWRI" for PowerInfer's models
// (every layer sparse, with a predictor) and its split files.
enum class Container : uint8_t { kGguf, kPowerInfer };
std::string_view NameOf(Container container);  // "GGUF", "PWRI"

// As the format's documentation names it: "u32", "string".
std::string_view NameOf(ValueType type);

// An array of scalars or strings (never of arrays). Integers of any width are
// read as int64, floats as double; u64 ones as uint64 if any is above the range
// of int64.
struct Array {
  ValueType elem_type;
  std::variant<Numbers<int64_t>, Numbers<double>, std::vector<std::string>,
               Numbers<uint64_t>>
      values;  // bools: int64
  size_t size() const;
};

// What an Array holds its elements in, by the type that they are read as:
// int64_t, double, std::string or uint64_t.
template <typename T>
using ElementsOf = std::conditional_t<std::same_as<T, std::string>,
                                      std::vector<std::string>, Numbers<T>>;

struct KeyValue {
  std::string key;
  ValueType type = ValueType::kU8;
  // uint64_t: a u64 above 2^63 - 1, which no key that is read here may have.
  std::variant<int64_t, double, bool, std::string, Array, uint64_t> value;

  // Of an array of what is read as T: int64_t, double or std::string. Null: it
  // is none.
  template <typename T>
  const ElementsOf<T>* Elements() const {
    const auto* array = std::get_if<Array>(&value);
    return array == nullptr ? nullptr
                            : std::get_if<ElementsOf<T>>(&array->values);
  }
};

// Where bytes lie on disk, whatever is mapped or read of them: inside one file.
struct FileSpan {
  uint32_t shard_idx = 0;  // whose name File::shard_path says
  uint64_t offset = 0;     // from that file's beginning
  uint64_t num_bytes = 0;

  bool operator==(const FileSpan&) const = default;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t num_bytes = 0;
  const std::byte* data = nullptr;  // in the mapping or buffer of its shard
  uint32_t shard_idx = 0;
  uint64_t offset = 0;  // in its shard's file

  FileSpan span() const { return {shard_idx, offset, num_bytes}; }
};

// How the bytes of a file are kept. Neither: mapped, and the system drops and
// reads pages as it likes.
struct WeightResidency {
  bool read = false;  // in anonymous memory with huge pages, unmapped
  bool lock = false;  // in RAM, mapped or read
  // With `read`: tensors of these names stay in the file and have no data.
  std::vector<std::string> left_out;
  bool any() const { return read || lock; }
};

// A model file, or all shards of one, mapped and validated: every size and
// offset is checked before it is used, so reading any tensor stays inside the
// mapping. Immutable once it is shared, then safe from any thread. Owns the
// mappings, or the memory that Hold puts in their place.
class File {
 public:
  // Opens `path`; if it is the first shard of a split file, the others too.
  // kNotFound, kIo; kCorrupt and kUnsupported name the file and the field;
  // kInvalidArgument: a shard that is not the first; kResourceExhausted: no
  // memory for the metadata, or too many mappings.
  static Result<std::unique_ptr<File>> Open(const std::string& path);

  // Parses one file from memory that outlives the File. No splits. kCorrupt,
  // kUnsupported, kResourceExhausted; messages call it `name`.
  static Result<std::unique_ptr<File>> Parse(std::span<const std::byte> bytes,
                                             const std::string& name);
  // The same of memory that the File owns from here on.
  static Result<std::unique_ptr<File>> Parse(os::AlignedBuffer bytes,
                                             const std::string& name);

  virtual ~File() = default;

  // Keeps an opened file as `options` say, shard by shard; to be called at most
  // once, before others see the file: tensors' data moves. Where several NUMA
  // nodes have CPUs, what is read lies on the nodes as gguf/node_plan.h says.
  // What cannot be locked is a warning, and the file stays as it is; so does
  // one from Parse. Where tensors are left out, the others lie one behind the
  // other. kNotFound, kIo: it cannot be read, or was deleted, replaced
  // or cut off meanwhile; kResourceExhausted: no memory. Takes as long as
  // reading the file; progress counts bytes.
  virtual Status Hold(const WeightResidency& options,
                      const ProgressFn& progress) = 0;
  // What holds now: `lock` is false where locking failed.
  virtual const WeightResidency& held() const = 0;
  // Bytes that the system cannot drop and read again: all of the file, or all
  // tensors that are not left out, if any of `held()` is true, else 0.
  uint64_t num_held_bytes() const;

  virtual const std::string& path() const = 0;
  virtual Container container() const = 0;
  virtual uint32_t version() const = 0;
  virtual uint64_t num_file_bytes() const = 0;  // all shards
  virtual int num_shards() const = 0;
  // The file that a FileSpan speaks of; shard 0 is path(). shard_idx <
  // num_shards() (CHECKed).
  virtual std::string shard_path(uint32_t shard_idx) const = 0;
  // What it was when it was opened; nothing of memory without a file.
  virtual std::optional<os::FileIdentity> shard_identity(
      uint32_t shard_idx) const = 0;
  virtual std::span<const KeyValue> metadata() const = 0;
  virtual std::span<const TensorInfo> tensors() const = 0;

  // Null if absent. O(1).
  virtual const KeyValue* Find(std::string_view key) const = 0;
  virtual const TensorInfo* FindTensor(std::string_view name) const = 0;

  // The view of a tensor; an empty view if it is absent.
  TensorView Tensor(std::string_view name) const;

  // Typed access. nullopt: the key is absent. kCorrupt: it is there with
  // another type; the message names file, key, both types. Integers are
  // accepted in any width and sign, up to 2^63 - 1.
  Result<std::optional<int64_t>> Int(std::string_view key) const;
  Result<std::optional<double>> Float(std::string_view key) const;
  Result<std::optional<bool>> Bool(std::string_view key) const;
  Result<std::optional<std::string>> String(std::string_view key) const;

  // KeyValue::Elements; null also where the key is absent.
  template <typename T>
  const ElementsOf<T>* Elements(std::string_view key) const {
    const KeyValue* kv = Find(key);
    return kv == nullptr ? nullptr : kv->Elements<T>();
  }
};

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_GGUF_H_
