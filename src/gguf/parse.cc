#include "gguf/parse.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/math.h"
#include "base/quote.h"
#include "gguf/byte_reader.h"
#include "gguf/parse_value.h"

namespace thermocline::gguf {
namespace {

// The least bytes that an entry takes: a key of one byte with a one-byte value;
// a name of one byte with one extent.
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

struct Header {
  uint32_t version;
  uint64_t num_tensors;
  uint64_t num_keys;
};

// What people hand in by mistake.
struct Magic {
  std::string_view prefix;
  ErrorCode code;
  std::string_view message;
};
constexpr Magic kOtherFiles[] = {
    {"ggml", ErrorCode::kUnsupported,
     "a GGML file from before GGUF; convert the model again"},
    {"tjgg", ErrorCode::kUnsupported,
     "a GGJT file from before GGUF; convert the model again"},
    {"vers", ErrorCode::kCorrupt,
     "not a GGUF file but text (a Git LFS pointer whose model was never "
     "downloaded?)"},
    {"<", ErrorCode::kCorrupt,
     "not a GGUF file but HTML or XML (an error page saved as the model?)"},
    {"PK", ErrorCode::kCorrupt,
     "not a GGUF file but a zip archive (a PyTorch model? convert it first)"},
};

Result<Container> ReadContainer(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  if (text.empty()) return Fail(ErrorCode::kCorrupt, "the file is empty");
  for (const auto container : {Container::kGguf, Container::kPowerInfer}) {
    if (text.starts_with(NameOf(container))) return container;
  }
  for (const Magic& other : kOtherFiles) {
    if (text.starts_with(other.prefix)) {
      return Fail(other.code, "{}", other.message);
    }
  }
  return Fail(ErrorCode::kCorrupt,
              "not a GGUF file: it begins with {}, not with \"GGUF\"",
              Quote(text.substr(0, 4)));
}

Status CheckVersion(uint32_t version) {
  if (version == 2 || version == 3) return {};
  if (version == 1) {
    return Fail(ErrorCode::kUnsupported,
                "GGUF version 1, which had 32-bit counts, is not read; convert "
                "the model again");
  }
  if (version != 0 && (version & 0xffff) == 0) {
    return Fail(ErrorCode::kUnsupported,
                "a big-endian GGUF file (version 0x{:08x}); only little-endian "
                "ones are read",
                version);
  }
  return Fail(version == 0 ? ErrorCode::kCorrupt : ErrorCode::kUnsupported,
              "GGUF version {}; versions 2 and 3 are read", version);
}

Result<Header> ReadHeader(ByteReader& reader) {
  Header header;
  TC_RETURN_IF_ERROR(reader.Read<uint32_t>());  // the magic
  TC_ASSIGN_OR_RETURN(header.version, reader.Read<uint32_t>());
  TC_RETURN_IF_ERROR(CheckVersion(header.version));
  TC_ASSIGN_OR_RETURN(header.num_tensors, reader.Read<uint64_t>());
  TC_ASSIGN_OR_RETURN(header.num_keys, reader.Read<uint64_t>());
  if (header.num_keys > reader.remaining() / kMinKeyValueBytes ||
      header.num_tensors > reader.remaining() / kMinTensorInfoBytes) {
    return Fail(
        ErrorCode::kCorrupt,
        "the header promises {} keys and {} tensors, more than {} bytes "
        "can hold (a truncated or damaged file?)",
        header.num_keys, header.num_tensors, reader.remaining());
  }
  return header;
}

Status ReadKeyValue(ByteReader& reader, KeyValue& kv) {
  TC_ASSIGN_OR_RETURN(const auto key, reader.ReadString(kMaxKeyBytes));
  if (key.empty()) return Fail(ErrorCode::kCorrupt, "its name is empty");
  kv.key = key;
  const Status status = ReadTypedValue(reader, kv);
  if (!status) return Annotate(Quote(key), status.error());
  return {};
}

Result<std::vector<KeyValue>> ReadMetadata(ByteReader& reader,
                                           uint64_t num_keys) {
  // Grows with what is really there, whatever the header promises.
  std::vector<KeyValue> metadata;
  for (uint64_t i = 0; i < num_keys; ++i) {
    const Status status = ReadKeyValue(reader, metadata.emplace_back());
    if (!status) return Annotate(fmt::format("key {}", i), status.error());
  }
  return metadata;
}

Result<uint64_t> AlignmentOf(std::span<const KeyValue> metadata) {
  for (const KeyValue& kv : metadata) {
    if (kv.key != "general.alignment") continue;
    if (kv.type != ValueType::kU32) {
      return Fail(ErrorCode::kCorrupt,
                  "key \"general.alignment\" is {}; it must be u32",
                  NameOf(kv.type));
    }
    const auto alignment = static_cast<uint64_t>(std::get<int64_t>(kv.value));
    if (!std::has_single_bit(alignment) || alignment > kMaxReadAlignment) {
      return Fail(ErrorCode::kCorrupt,
                  "key \"general.alignment\" is {}; it must be a power of two, "
                  "at most {}",
                  alignment, kMaxReadAlignment);
    }
    return alignment;
  }
  return kDefaultAlignment;
}

Result<Shape> ReadShape(ByteReader& reader) {
  Shape shape;
  TC_ASSIGN_OR_RETURN(const uint32_t rank, reader.Read<uint32_t>());
  if (rank < 1 || rank > kMaxDims) {
    return Fail(ErrorCode::kCorrupt, "{} dimensions; 1 to {} are allowed", rank,
                kMaxDims);
  }
  shape.rank = static_cast<int>(rank);
  for (int i = 0; i < shape.rank; ++i) {
    TC_ASSIGN_OR_RETURN(shape.ne[i], reader.Read<uint64_t>());
  }
  return shape;
}

// PowerInfer's split files write the list of a layer without hot neurons as a
// tensor without elements.
bool IsEmptyList(Container container, const TensorInfo& info) {
  return container == Container::kPowerInfer && info.dtype == DType::kI32 &&
         info.shape.rank == 1 && info.shape.ne[0] == 0;
}

// Reads one tensor's description; its offset goes to `offset`, `data` stays
// null.
Status ReadTensorInfo(ByteReader& reader, Container container, TensorInfo& info,
                      uint64_t& offset) {
  TC_ASSIGN_OR_RETURN(const Shape shape, ReadShape(reader));
  TC_ASSIGN_OR_RETURN(const uint32_t dtype_id, reader.Read<uint32_t>());
  TC_ASSIGN_OR_RETURN(offset, reader.Read<uint64_t>());
  const DTypeInfo* dtype = FindDType(dtype_id);
  if (dtype == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "its type has the number {}, which is unknown or was removed "
                "from the format",
                dtype_id);
  }
  info.shape = shape;
  info.dtype = dtype->dtype;
  if (IsEmptyList(container, info)) return {};
  TC_ASSIGN_OR_RETURN(info.num_bytes, TensorBytes(*dtype, shape));
  return {};
}

Status CheckNoOverlap(std::span<const TensorInfo> tensors) {
  std::vector<size_t> order;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].num_bytes > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tensors[a].offset < tensors[b].offset;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& left = tensors[order[i - 1]];
    const TensorInfo& right = tensors[order[i]];
    if (left.offset + left.num_bytes > right.offset) {
      return Fail(ErrorCode::kCorrupt, "the tensors {} and {} overlap",
                  Quote(left.name), Quote(right.name));
    }
  }
  return {};
}

// Points every tensor at its bytes in the data section.
Status PlaceTensors(std::span<const std::byte> bytes, uint64_t metadata_end,
                    uint64_t alignment, std::span<const uint64_t> offsets,
                    std::span<TensorInfo> tensors) {
  // No overflow: metadata_end is a size in memory, alignment is small.
  const uint64_t data_start = RoundUp(metadata_end, alignment);
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorInfo& info = tensors[i];
    if (offsets[i] % alignment != 0) {
      return Fail(ErrorCode::kCorrupt,
                  "tensor {}: its offset {} is not a multiple of the alignment "
                  "{}",
                  Quote(info.name), offsets[i], alignment);
    }
    const std::optional<uint64_t> start = CheckedAdd(data_start, offsets[i]);
    const std::optional<uint64_t> end =
        start ? CheckedAdd(*start, info.num_bytes) : std::nullopt;
    if (!end || *end > bytes.size()) {
      return Fail(ErrorCode::kCorrupt,
                  "tensor {}: {} bytes at offset {} of the data, which starts "
                  "at byte {}, but the file has {} bytes (a truncated "
                  "download?)",
                  Quote(info.name), info.num_bytes, offsets[i], data_start,
                  bytes.size());
    }
    info.offset = *start;
    info.data = bytes.data() + *start;
  }
  return CheckNoOverlap(tensors);
}

Result<std::vector<TensorInfo>> ReadTensors(std::span<const std::byte> bytes,
                                            ByteReader& reader,
                                            Container container,
                                            uint64_t alignment,
                                            uint64_t num_tensors) {
  std::vector<TensorInfo> tensors;
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    auto name = reader.ReadString(kMaxTensorNameBytes);
    if (!name) {
      return Annotate(fmt::format("name of tensor {}", i), name.error());
    }
    if (name->empty()) {
      return Fail(ErrorCode::kCorrupt, "the name of tensor {} is empty", i);
    }
    TensorInfo& info = tensors.emplace_back();
    info.name = *name;
    const Status status =
        ReadTensorInfo(reader, container, info, offsets.emplace_back());
    if (!status) {
      return Annotate(fmt::format("tensor {}", Quote(*name)), status.error());
    }
  }
  TC_RETURN_IF_ERROR(
      PlaceTensors(bytes, reader.position(), alignment, offsets, tensors));
  return tensors;
}

template <typename T>
Result<NameIndex> IndexBy(std::string_view kind, std::span<const T> items,
                          std::string T::* name) {
  NameIndex index;
  index.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!index.emplace(items[i].*name, i).second) {
      return Fail(ErrorCode::kCorrupt, "the {} {} occurs twice", kind,
                  Quote(items[i].*name));
    }
  }
  return index;
}

}  // namespace

Result<uint64_t> TensorBytes(const DTypeInfo& dtype, const Shape& shape) {
  if (shape.rank < 1 || std::ranges::count(shape.ne, 0u) > 0) {
    return Fail(ErrorCode::kCorrupt, "the shape {} has an extent of 0",
                ToString(shape));
  }
  if (shape.ne[0] % dtype.block_elems != 0) {
    return Fail(ErrorCode::kCorrupt,
                "rows of {} elements do not divide into {} blocks of {}",
                shape.ne[0], dtype.name, dtype.block_elems);
  }
  std::optional<uint64_t> num_elems = shape.ne[0];
  for (int i = 1; i < kMaxDims && num_elems; ++i) {
    num_elems = CheckedMul(*num_elems, shape.ne[i]);
  }
  std::optional<uint64_t> num_bytes;
  if (num_elems && *num_elems <= uint64_t{INT64_MAX}) {
    num_bytes = CheckedMul(*num_elems / dtype.block_elems, dtype.block_bytes);
  }
  if (!num_bytes) {
    return Fail(ErrorCode::kCorrupt, "the shape {} is too large",
                ToString(shape));
  }
  return *num_bytes;
}

Result<ParsedFile> ParseFile(std::span<const std::byte> bytes) {
  ParsedFile file;
  TC_ASSIGN_OR_RETURN(file.container, ReadContainer(bytes));
  ByteReader reader(bytes);
  auto header = ReadHeader(reader);
  if (!header) return Annotate("header", header.error());
  file.version = header->version;
  TC_ASSIGN_OR_RETURN(file.metadata, ReadMetadata(reader, header->num_keys));
  TC_ASSIGN_OR_RETURN(const uint64_t alignment, AlignmentOf(file.metadata));
  if (header->num_tensors > reader.remaining() / kMinTensorInfoBytes) {
    return Fail(ErrorCode::kCorrupt,
                "{} tensors cannot be described in the {} bytes that are left "
                "of the file (a truncated download?)",
                header->num_tensors, reader.remaining());
  }
  TC_ASSIGN_OR_RETURN(file.tensors,
                      ReadTensors(bytes, reader, file.container, alignment,
                                  header->num_tensors));
  return file;
}

Result<NameIndex> IndexKeys(std::span<const KeyValue> metadata) {
  return IndexBy("key", metadata, &KeyValue::key);
}

Result<NameIndex> IndexTensors(std::span<const TensorInfo> tensors) {
  return IndexBy("tensor", tensors, &TensorInfo::name);
}

}  // namespace thermocline::gguf
