// Any text is scanned as a template, without recursion that it could drive.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/jinja_scan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  size_t num_bytes = 0;
  for (const auto& node : thermocline::text::ScanJinja(text)) {
    num_bytes += node.text.size();
  }
  TC_CHECK(num_bytes <= size);
  const auto prompt = thermocline::text::GenerationPromptOf(text);
  TC_CHECK(!prompt || prompt->size() <= size);
  return 0;
}
