// Any bytes as a GGUF file: refused, or all metadata and both ends of every
// tensor can be read.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/check.h"
#include "gguf/gguf.h"

namespace thermocline::gguf {
namespace {

void TouchMetadata(const File& file) {
  for (const KeyValue& kv : file.metadata()) {
    TC_CHECK(file.Find(kv.key) == &kv);
    // One of the four fits at most; the others must say so, not fail. None
    // fits arrays, and integers above 2^63 - 1.
    const int num_fitting =
        file.Int(kv.key).has_value() + file.Float(kv.key).has_value() +
        file.Bool(kv.key).has_value() + file.String(kv.key).has_value();
    const bool fits_none = std::holds_alternative<Array>(kv.value) ||
                           std::holds_alternative<uint64_t>(kv.value);
    TC_CHECK(num_fitting == (fits_none ? 0 : 1));
  }
}

void TouchTensors(const File& file) {
  for (const TensorInfo& info : file.tensors()) {
    TC_CHECK(file.FindTensor(info.name) == &info);
    const TensorView view = file.Tensor(info.name);
    TC_CHECK(view && view.num_bytes() == info.num_bytes);
    const FileSpan span = info.span();
    TC_CHECK(span.shard_idx == 0 && span.num_bytes <= file.num_file_bytes() &&
             span.offset <= file.num_file_bytes() - span.num_bytes);
    const volatile std::byte* data = view.data;
    (void)data[0];
    (void)data[view.num_bytes() - 1];
    (void)*view.row(view.shape.num_rows() - 1);
  }
}

}  // namespace
}  // namespace thermocline::gguf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using thermocline::gguf::File;
  const auto file =
      File::Parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!file) return 0;
  thermocline::gguf::TouchMetadata(**file);
  thermocline::gguf::TouchTensors(**file);
  return 0;
}
