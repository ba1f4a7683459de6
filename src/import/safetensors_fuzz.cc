// Any bytes are a safetensors file or an error.
#include <cstddef>
#include <cstdint>

#include "import/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = thermocline::importer::ParseSafetensors(
      std::as_bytes(std::span(data, size)), "fuzz");
  if (!tensors) return 0;
  // The views must be readable to the last byte.
  volatile uint8_t sink = 0;
  for (const auto& tensor : *tensors) {
    for (const std::byte b : tensor.bytes) sink = static_cast<uint8_t>(b);
  }
  (void)sink;
  return 0;
}
