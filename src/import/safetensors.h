// The safetensors container: a length, a JSON header, and the tensors' bytes.
#ifndef THERMOCLINE_IMPORT_SAFETENSORS_H_
#define THERMOCLINE_IMPORT_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "os/file.h"
#include "tensor/dtype.h"

namespace thermocline::importer {

struct SafeTensor {
  std::string name;
  std::string dtype_name;       // as the file has it: "F16", "I64"
  std::optional<DType> dtype;   // F32, F16, BF16; otherwise nothing reads it
  std::vector<uint64_t> shape;  // outermost first; product fits 64 bits
  std::span<const std::byte> bytes;
};

// The tensors of one file in the order of their bytes. Everything is checked:
// every tensor has as many bytes as its type and shape need, and together they
// cover the file's data without gap or overlap.
// kCorrupt, kUnsupported (an unknown element type); both name `path` and the
// tensor. The views point into `file`, which outlives them.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
Result<std::vector<SafeTensor>> ParseSafetensors(
    std::span<const std::byte> file, const std::string& path);

// The same for a file on disk, which stays mapped as long as this lives.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::span<const SafeTensor> tensors() const { return tensors_; }

 private:
  os::MappedFile file_;
  std::vector<SafeTensor> tensors_;
};

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_SAFETENSORS_H_
