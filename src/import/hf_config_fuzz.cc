// Any text is a config.json (and a generation_config.json, behind the first
// zero byte), or an error; what it says can be laid out as tensors.
#include <cstddef>
#include <cstdint>
#include <string>

#include "import/checkpoint.h"
#include "import/hf_config.h"
#include "import/tensor_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline;
  using namespace thermocline::importer;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\0');
  auto config = ParseHfConfig(text.substr(0, cut), "config.json");
  if (!config) return 0;
  if (cut != std::string::npos) {
    (void)ReadGenerationConfig(text.substr(cut + 1), "generation", *config);
  }
  // Wider models are the same code, and gigabytes of row numbers.
  if (config->width > 4096 || config->num_heads > 4096 ||
      config->head_width > 4096 || config->context_length > (1 << 20)) {
    return 0;
  }
  (void)PlanTensors(*config, Checkpoint(), DType::kF16);
  return 0;
}
