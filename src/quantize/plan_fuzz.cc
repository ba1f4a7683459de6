// Any bytes as a GGUF file: refused, or a plan whose types fit all rows.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "quantize/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline;
  using namespace thermocline::quantize;
  const auto file =
      gguf::File::Parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!file) return 0;
  for (const gguf::FileTypeInfo& info : gguf::FileTypes()) {
    QuantizeOptions options;
    options.type = info.type;
    options.allow_requantize = true;
    options.overrides = {{"attn_.*weight$", DType::kQ5_K}};
    const auto plan = PlanQuantization(**file, options);
    if (!plan) continue;
    TC_CHECK(plan->tensors.size() == (*file)->tensors().size());
    for (const QuantizedTensor& tensor : plan->tensors) {
      TC_CHECK(tensor.num_bytes ==
               BytesOf(tensor.dtype, tensor.source->shape.num_elems()));
    }
  }
  return 0;
}
