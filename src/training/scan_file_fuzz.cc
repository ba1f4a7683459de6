// Any bytes as what a scan left of one small model: refused, or samples of
// every layer, and a choice that can be printed.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "gguf/gguf.h"
#include "training/scan_file.h"

namespace thermocline::training {
namespace {

void CheckScan(const ScanFile& scan, const model::Config& config) {
  TC_CHECK(scan.self_test.size() == 2);
  const pack::PreparedParts parts = {.thresholds = scan.thresholds,
                                     .self_test = scan.self_test};
  TC_CHECK(pack::CheckParts(parts, config).has_value());
  if (!scan.choice) return;
  TC_CHECK(!scan.thresholds.empty());
  TC_CHECK(scan.choice->density >= 0 && scan.choice->density <= 1);
  TC_CHECK(std::isfinite(scan.choice->perplexity));
  TC_CHECK(scan.choice->dense_perplexity > 0);
}

}  // namespace
}  // namespace thermocline::training

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline;
  const auto file =
      gguf::File::Parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file) return 0;
  model::Config config;
  config.architecture = "llama";
  config.num_layers = 2;
  config.width = 32;
  const model::LayerSpec layer = {
      .ffn = {.activation = Activation::kSilu, .width = 64}};
  config.layers = {layer, layer};
  const auto scan = training::ReadScanFile(**file, config);
  if (scan) training::CheckScan(*scan, config);
  return 0;
}
