// Any bytes as a file of parts for one small model: refused, or parts that may
// be written.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "gguf/gguf.h"
#include "pack/part_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline;
  const auto file =
      gguf::File::Parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file) return 0;
  model::Config config;
  config.architecture = "llama";
  config.num_layers = 2;
  config.width = 32;
  const model::LayerSpec layer = {.ffn = {.width = 64}};
  config.layers = {layer, layer};
  const auto parts = pack::ReadParts(**file, config);
  if (parts) TC_CHECK(pack::CheckParts(*parts, config).has_value());
  return 0;
}
