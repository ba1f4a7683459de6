// Writes GGUF v3 (or PowerInfer's twin of it): metadata first, then tensors as
// they are made, one at a time.
#ifndef THERMOCLINE_GGUF_WRITER_H_
#define THERMOCLINE_GGUF_WRITER_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"

namespace thermocline::gguf {

// Usage: add metadata and declare all tensors, Start, then give the data of
// every tensor in the declared order, then Finish (CHECKed). The file appears
// under its name at Finish (os::AtomicFile). Not thread-safe.
class Writer {
 public:
  // Of tensors' places in the file: kAlignment, which other programs take for
  // granted, or a larger power of two, which goes into the metadata.
  static constexpr uint64_t kAlignment = kDefaultAlignment;
  static constexpr uint64_t kMaxAlignment = 4096;
  // os::AtomicFile's errors; another alignment is CHECKed.
  static Result<std::unique_ptr<Writer>> Create(
      const std::string& path, Container container = Container::kGguf,
      uint64_t alignment = kAlignment);
  // What such a file begins with, and no more: Start puts it into `header`, and
  // nothing is given of the tensors. `header` outlives the writer.
  static std::unique_ptr<Writer> OfHeader(std::string& header,
                                          uint64_t alignment = kAlignment);
  virtual ~Writer() = default;

  // kInvalidArgument, and nothing is added: a key twice, an empty or too long
  // one, general.alignment, a value that its type does not hold.
  virtual Status AddInt(const std::string& key, ValueType type,
                        int64_t value) = 0;
  virtual Status AddFloat(const std::string& key, float value) = 0;
  virtual Status AddBool(const std::string& key, bool value) = 0;
  virtual Status AddString(const std::string& key, std::string_view value) = 0;
  virtual Status AddArray(const std::string& key, const Array& values) = 0;
  // A key as read from another file.
  virtual Status AddKeyValue(const KeyValue& kv) = 0;

  // kInvalidArgument: a name twice, an empty one or one of more than 63 bytes,
  // an extent of 0, a row that does not divide into blocks, a file too large.
  virtual Status DeclareTensor(const std::string& name, DType dtype,
                               const Shape& shape) = 0;

  // From here on errors are os::AtomicFile's.
  virtual Status Start() = 0;
  // The next bytes of the tensor whose turn it is: all, or one piece after the
  // other; never past its end (CHECKed).
  virtual Status WriteTensorData(std::span<const std::byte> bytes) = 0;
  // kIo, besides AtomicFile's errors: a file that is mapped was written over
  // meanwhile, so that what was read of it may be of two files.
  virtual Status Finish() = 0;
};

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_WRITER_H_
