#include "gguf/writer.h"

#include <bit>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/keyed_hash.h"
#include "base/math.h"
#include "base/quote.h"
#include "gguf/parse.h"
#include "os/file.h"

namespace thermocline::gguf {
namespace {

constexpr char kAlignmentKey[] = "general.alignment";
// llama.cpp wants tensor names shorter than the format's limit.
constexpr size_t kMaxWrittenNameBytes = kMaxTensorNameBytes - 1;

template <typename T>
void AppendRaw(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendText(std::string_view text, std::string& out) {
  AppendRaw(uint64_t{text.size()}, out);
  out.append(text);
}

template <typename T>
Status AppendAs(int64_t value, ValueType type, std::string& out) {
  if (!std::in_range<T>(value)) {
    return Fail(ErrorCode::kInvalidArgument, "{} does not fit {}", value,
                NameOf(type));
  }
  AppendRaw(static_cast<T>(value), out);
  return {};
}

Status AppendInt(int64_t value, ValueType type, std::string& out) {
  switch (type) {
    case ValueType::kU8:
      return AppendAs<uint8_t>(value, type, out);
    case ValueType::kI8:
      return AppendAs<int8_t>(value, type, out);
    case ValueType::kU16:
      return AppendAs<uint16_t>(value, type, out);
    case ValueType::kI16:
      return AppendAs<int16_t>(value, type, out);
    case ValueType::kU32:
      return AppendAs<uint32_t>(value, type, out);
    case ValueType::kI32:
      return AppendAs<int32_t>(value, type, out);
    case ValueType::kU64:
      return AppendAs<uint64_t>(value, type, out);
    case ValueType::kI64:
      return AppendAs<int64_t>(value, type, out);
    case ValueType::kBool:
      if (value != 0 && value != 1) {
        return Fail(ErrorCode::kInvalidArgument, "{} is no bool", value);
      }
      return AppendAs<uint8_t>(value, type, out);
    default:
      return Fail(ErrorCode::kInvalidArgument, "an integer cannot be {}",
                  NameOf(type));
  }
}

Status AppendFloat(double value, ValueType type, std::string& out) {
  if (type == ValueType::kF32) {
    AppendRaw(static_cast<float>(value), out);
  } else if (type == ValueType::kF64) {
    AppendRaw(value, out);
  } else {
    return Fail(ErrorCode::kInvalidArgument, "a float cannot be {}",
                NameOf(type));
  }
  return {};
}

Status AppendString(std::string_view text, ValueType type, std::string& out) {
  if (type != ValueType::kString || text.size() > kMaxStringBytes) {
    return Fail(ErrorCode::kInvalidArgument, "a string of {} bytes as {}",
                text.size(), NameOf(type));
  }
  AppendText(text, out);
  return {};
}

// One overload for every type that an array or a value holds.
Status Append(int64_t value, ValueType type, std::string& out) {
  return AppendInt(value, type, out);
}
Status Append(uint64_t value, ValueType type, std::string& out) {
  if (type == ValueType::kU64) {
    AppendRaw(value, out);
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument, "the integer {} cannot be {}", value,
              NameOf(type));
}
Status Append(double value, ValueType type, std::string& out) {
  return AppendFloat(value, type, out);
}
Status Append(bool value, ValueType type, std::string& out) {
  if (type == ValueType::kBool) return AppendInt(value ? 1 : 0, type, out);
  return Fail(ErrorCode::kInvalidArgument, "a bool as {}", NameOf(type));
}
Status Append(std::string_view value, ValueType type, std::string& out) {
  return AppendString(value, type, out);
}
Status Append(const Array& array, ValueType type, std::string& out) {
  if (type != ValueType::kArray || array.size() > kMaxArrayElems) {
    return Fail(ErrorCode::kInvalidArgument, "an array of {} elements as {}",
                array.size(), NameOf(type));
  }
  AppendRaw(array.elem_type, out);
  AppendRaw(uint64_t{array.size()}, out);
  return std::visit(
      [&](const auto& values) -> Status {
        for (const auto& value : values) {
          TC_RETURN_IF_ERROR(Append(value, array.elem_type, out));
        }
        return {};
      },
      array.values);
}

class WriterImpl : public Writer {
 public:
  // Into one of the two.
  WriterImpl(std::unique_ptr<os::AtomicFile> file, std::string* header,
             Container container, uint64_t alignment)
      : file_(std::move(file)),
        header_(header),
        container_(container),
        alignment_(alignment) {
    if (alignment == kAlignment) return;
    AppendText(kAlignmentKey, metadata_);
    AppendRaw(ValueType::kU32, metadata_);
    AppendRaw(static_cast<uint32_t>(alignment), metadata_);
    keys_.insert(kAlignmentKey);
  }

  Status AddInt(const std::string& key, ValueType type,
                int64_t value) override {
    return Add(key, type, value);
  }
  Status AddFloat(const std::string& key, float value) override {
    return Add(key, ValueType::kF32, static_cast<double>(value));
  }
  Status AddBool(const std::string& key, bool value) override {
    return Add(key, ValueType::kBool, value);
  }
  Status AddString(const std::string& key, std::string_view value) override {
    return Add(key, ValueType::kString, value);
  }
  Status AddArray(const std::string& key, const Array& values) override {
    return Add(key, ValueType::kArray, values);
  }
  Status AddKeyValue(const KeyValue& kv) override {
    return std::visit(
        [&](const auto& value) { return Add(kv.key, kv.type, value); },
        kv.value);
  }

  Status DeclareTensor(const std::string& name, DType dtype,
                       const Shape& shape) override;
  Status Start() override;
  Status WriteTensorData(std::span<const std::byte> bytes) override;
  Status Finish() override;

 private:
  template <typename T>
  Status Add(const std::string& key, ValueType type, const T& value);
  Status CheckKey(const std::string& key, ValueType type);
  Status PadAfter(uint64_t num_bytes);
  Status Put(std::string_view bytes) {
    if (file_ != nullptr) return file_->Write(bytes);
    header_->append(bytes);
    return {};
  }

  std::unique_ptr<os::AtomicFile> file_;
  std::string* header_;
  Container container_;
  uint64_t alignment_;
  std::unordered_set<std::string, KeyedHash> names_;  // of tensors
  std::unordered_set<std::string, KeyedHash> keys_;
  std::string metadata_;      // key-value pairs, as they will be written
  std::string tensor_infos_;  // likewise
  std::vector<uint64_t> tensor_bytes_;
  uint64_t next_offset_ = 0;  // in the data section
  bool started_ = false;
  size_t tensor_idx_ = 0;     // the tensor whose data comes next
  uint64_t num_written_ = 0;  // of that tensor
};

Status WriterImpl::CheckKey(const std::string& key, ValueType type) {
  TC_CHECK(!started_);
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return Fail(ErrorCode::kInvalidArgument, "a key of {} bytes", key.size());
  }
  if (key == kAlignmentKey) {
    return Fail(ErrorCode::kInvalidArgument,
                "general.alignment is the writer's own: {} here, {} given",
                alignment_, NameOf(type));
  }
  if (!keys_.insert(key).second) {
    return Fail(ErrorCode::kInvalidArgument, "key {} added twice", Quote(key));
  }
  return {};
}

template <typename T>
Status WriterImpl::Add(const std::string& key, ValueType type, const T& value) {
  TC_RETURN_IF_ERROR(CheckKey(key, type));
  const size_t size_before = metadata_.size();
  AppendText(key, metadata_);
  AppendRaw(type, metadata_);
  const Status status = Append(value, type, metadata_);
  if (!status) {
    metadata_.resize(size_before);
    keys_.erase(key);
    return Annotate(fmt::format("key {}", Quote(key)), status.error());
  }
  return {};
}

Status WriterImpl::DeclareTensor(const std::string& name, DType dtype,
                                 const Shape& shape) {
  TC_CHECK(!started_ && shape.rank <= kMaxDims);
  if (name.empty() || name.size() > kMaxWrittenNameBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                "tensor {}: a name of {} bytes; 1 to {} are possible",
                Quote(name), name.size(), kMaxWrittenNameBytes);
  }
  const auto num_bytes = TensorBytes(InfoOf(dtype), shape);
  if (!num_bytes) {
    return Fail(ErrorCode::kInvalidArgument, "tensor {}: {}", Quote(name),
                num_bytes.error().message);
  }
  const auto end = CheckedAdd(next_offset_, *num_bytes);
  if (!end || *end > uint64_t{INT64_MAX}) {
    return Fail(ErrorCode::kInvalidArgument,
                "tensor {}: the file grows too "
                "large",
                Quote(name));
  }
  if (!names_.insert(name).second) {
    return Fail(ErrorCode::kInvalidArgument, "tensor {} declared twice",
                Quote(name));
  }
  AppendText(name, tensor_infos_);
  AppendRaw(static_cast<uint32_t>(shape.rank), tensor_infos_);
  for (int i = 0; i < shape.rank; ++i) AppendRaw(shape.ne[i], tensor_infos_);
  AppendRaw(dtype, tensor_infos_);
  AppendRaw(next_offset_, tensor_infos_);
  tensor_bytes_.push_back(*num_bytes);
  next_offset_ = RoundUp(*end, alignment_);
  return {};
}

// Zeros behind `num_bytes` bytes, up to the next multiple of the alignment.
Status WriterImpl::PadAfter(uint64_t num_bytes) {
  static constexpr char kZeros[kMaxAlignment] = {};
  return Put({kZeros, RoundUp(num_bytes, alignment_) - num_bytes});
}

Status WriterImpl::Start() {
  TC_CHECK(!started_);
  started_ = true;
  std::string header(NameOf(container_));
  AppendRaw(uint32_t{3}, header);
  AppendRaw(uint64_t{tensor_bytes_.size()}, header);
  AppendRaw(uint64_t{keys_.size()}, header);
  TC_RETURN_IF_ERROR(Put(header));
  TC_RETURN_IF_ERROR(Put(metadata_));
  TC_RETURN_IF_ERROR(Put(tensor_infos_));
  if (tensor_bytes_.empty()) return {};
  return PadAfter(header.size() + metadata_.size() + tensor_infos_.size());
}

Status WriterImpl::WriteTensorData(std::span<const std::byte> bytes) {
  TC_CHECK(file_ != nullptr && started_ && tensor_idx_ < tensor_bytes_.size());
  const uint64_t num_bytes = tensor_bytes_[tensor_idx_];
  TC_CHECK(bytes.size() <= num_bytes - num_written_);
  TC_RETURN_IF_ERROR(file_->Write(bytes));
  num_written_ += bytes.size();
  if (num_written_ < num_bytes) return {};
  ++tensor_idx_;
  num_written_ = 0;
  return PadAfter(num_bytes);
}

Status WriterImpl::Finish() {
  TC_CHECK(file_ != nullptr && started_ && tensor_idx_ == tensor_bytes_.size());
  // Nothing is to appear that is made of two files.
  TC_RETURN_IF_ERROR(os::CheckMappedFiles());
  return file_->Commit();
}

}  // namespace

Result<std::unique_ptr<Writer>> Writer::Create(const std::string& path,
                                               Container container,
                                               uint64_t alignment) {
  TC_CHECK(alignment >= kAlignment && alignment <= kMaxAlignment &&
           std::has_single_bit(alignment));
  TC_ASSIGN_OR_RETURN(auto file, os::AtomicFile::Create(path));
  return std::unique_ptr<Writer>(std::make_unique<WriterImpl>(
      std::move(file), nullptr, container, alignment));
}

std::unique_ptr<Writer> Writer::OfHeader(std::string& header,
                                         uint64_t alignment) {
  TC_CHECK(alignment >= kAlignment && alignment <= kMaxAlignment &&
           std::has_single_bit(alignment));
  return std::make_unique<WriterImpl>(nullptr, &header, Container::kGguf,
                                      alignment);
}

}  // namespace thermocline::gguf
