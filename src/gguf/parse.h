// One GGUF file's bytes to metadata and tensors; the part of gguf.h that knows
// the layout. docs/formats/gguf.md lists what is refused.
#ifndef THERMOCLINE_GGUF_PARSE_H_
#define THERMOCLINE_GGUF_PARSE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "gguf/gguf.h"

namespace thermocline::gguf {

inline constexpr uint64_t kMaxReadAlignment = uint64_t{1} << 24;
inline constexpr uint64_t kMaxKeyBytes = 65535;
inline constexpr uint64_t kMaxTensorNameBytes = 64;
inline constexpr uint64_t kMaxStringBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxArrayElems = uint64_t{1} << 30;

struct ParsedFile {
  Container container = Container::kGguf;
  uint32_t version = 0;
  std::vector<KeyValue> metadata;
  // Each inside `bytes`, none overlapping; of shard 0.
  std::vector<TensorInfo> tensors;
};

// Bytes of a whole tensor. kCorrupt: an extent of 0, rows that do not divide
// into blocks, more than 2^63 - 1 elements or 2^64 - 1 bytes.
Result<uint64_t> TensorBytes(const DTypeInfo& dtype, const Shape& shape);

// kCorrupt, kUnsupported; messages lack the file's name (callers annotate).
// Duplicates are not looked for here (see IndexKeys). Time linear in the
// metadata up to the sort of the tensors; allocates at most about 20 times the
// metadata's bytes (keys of one byte with one-byte values). Throws
// std::bad_alloc.
Result<ParsedFile> ParseFile(std::span<const std::byte> bytes);

// Positions by name. The names must outlive the index and not move.
using NameIndex = std::unordered_map<std::string_view, size_t, KeyedHash>;

// kCorrupt when two have the same name.
Result<NameIndex> IndexKeys(std::span<const KeyValue> metadata);
Result<NameIndex> IndexTensors(std::span<const TensorInfo> tensors);

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_PARSE_H_
